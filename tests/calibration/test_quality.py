"""Drift, bandwidth, noise, freshness and the fleet, without any device."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specadvisor.calibration import fleet, freshness, quality
from specadvisor.calibration.checks import CheckFailed, Unreliable, require
from specadvisor.calibration.measurements import read_measurements
from specadvisor.calibration.rows import COLUMNS, Row, to_csv
from specadvisor.errors import InputError, SpecadvisorError


def test_drift_is_noted_and_past_the_limit_refused() -> None:
    assert quality.check_drift([{"read": 1.00}, {"read": 1.04}]) == []
    assert "drifted by 8%" in quality.check_drift([{"read": 1.00}, {"read": 1.08}])[0]
    with pytest.raises(Unreliable, match="moved by 30%"):
        quality.check_drift([{"read": 1.0}, {"read": 1.1}, {"read": 1.3}])


def reads(gb_per_s: float, size: int = 1 << 30) -> list[Row]:
    return [Row("bandwidth", "read", size / gb_per_s / 1e3, bytes=size)]


def test_bandwidth_against_the_datasheet() -> None:
    assert quality.check_bandwidth(reads(4400), 4.8e12, 50e6) == []
    assert "only 50%" in quality.check_bandwidth(reads(2400), 4.8e12, 50e6)[0]
    with pytest.raises(Unreliable, match="cannot be"):
        quality.check_bandwidth(reads(6000), 4.8e12, 50e6)
    # a read that the cache holds says nothing about memory
    assert quality.check_bandwidth(reads(9000, 1 << 25), 4.8e12, 50e6) == []


def test_noise_is_reported_per_operator() -> None:
    quiet = [Row("gemm", "bf16", 10.0, q25_us=9.95, q75_us=10.05, samples=9)] * 4
    noisy = [Row("gemm", "fp8", 10.0, q25_us=9.0, q75_us=11.0, samples=9)] * 4
    assert quality.noise_notes([*quiet, *noisy]) == ["gemm fp8: 4 of 4 points are noisy (spread above 3%)"]


def test_nan_is_a_failed_check() -> None:
    require("a kernel", 1e-3)
    with pytest.raises(CheckFailed):
        require("a kernel", float("nan"))


def test_rows_survive_the_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(to_csv([Row("gemm", "bf16", 12.3456789, engine="vllm", m=8, n=64, k=128, sets=3, auto=False)]))
    frame = read_measurements(path)
    assert path.read_text().splitlines()[0].split(",") == list(COLUMNS)
    assert frame["us"][0] == pytest.approx(12.346)
    assert (frame["m"][0], frame["auto"][0], frame["sets"][0]) == (8, 0, 3)


def test_newer_software_gives_a_note() -> None:
    old = {"driver": "580.65.06", "cublas": "13.1.0", "measured_on": "2026-01-02"}
    assert freshness.compare(old, {"driver": "580.65.06", "cublas": "13.1.0"}) is None
    assert freshness.compare(old, {"driver": "570.1", "cublas": ""}) is None
    note = freshness.compare(old, {"driver": "580.100.1", "cublas": "13.10.0"})
    assert note is not None
    assert "driver 580.65.06 -> 580.100.1" in note
    assert "cuBLASLt 13.1.0 -> 13.10.0" in note


def test_note_about_the_saved_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    monkeypatch.setattr(freshness, "local_driver", lambda: "600.1")
    monkeypatch.setattr(freshness, "local_cublas", lambda: "")
    assert freshness.outdated_note("h200_sxm") is None
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "h200_sxm.json").write_text(json.dumps({"conditions": {"driver": "580.1"}}))
    assert "580.1 -> 600.1" in str(freshness.outdated_note("h200_sxm"))


class FakeCluster:
    """Four workers: two H200, one of which fails, an L4 and one without GPU."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self._names = {"a": "NVIDIA H200", "b": "NVIDIA H200", "c": "NVIDIA L4", "d": ""}

    def workers(self) -> list[str]:
        return list(self._names)

    def close(self) -> None:
        self.measured.append("closed")

    def run(self, worker: str, function: Callable[[], Any]) -> Any:
        if function is fleet.local_gpu_name:
            return self._names[worker]
        self.measured.append(worker)
        if worker == "a":
            raise SpecadvisorError("throttled")
        gpu = "l4" if worker == "c" else "h200_sxm"
        return {
            "gpu": gpu,
            "texts": {".csv": f"rows of {worker}", ".json": f"profile of {worker}"},
            "stand_in": False,
            "notes": [],
        }


def test_fleet_measures_each_kind_once(tmp_path: Path) -> None:
    cluster, notes = FakeCluster(), []
    found = fleet.calibrate_on(cluster, {"quick": True}, tmp_path, notes.append)
    assert [(kind, worker, path.name) for kind, worker, path in found] == [
        ("NVIDIA H200", "b", "h200_sxm.json"),
        ("NVIDIA L4", "c", "l4.json"),
    ]
    assert cluster.measured == ["a", "b", "c"]
    assert (tmp_path / "h200_sxm.csv").read_text() == "rows of b"
    assert "NVIDIA H200 on a: throttled" in notes


def test_cluster_is_closed_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    cluster._names = {}
    monkeypatch.setattr(fleet, "connect", lambda address: cluster)
    with pytest.raises(InputError):
        fleet.calibrate_fleet("tcp://x:1", {}, tmp_path, lambda text: None)
    assert cluster.measured == ["closed"]


def test_fleet_without_gpus_says_so(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster._names = {"d": ""}
    with pytest.raises(InputError, match="No worker sees a GPU"):
        fleet.calibrate_on(cluster, {}, tmp_path, lambda text: None)


def test_unknown_cluster_address() -> None:
    with pytest.raises(InputError, match=r"tcp://host:8786 \(Dask\)"):
        fleet.connect("http://somewhere")
