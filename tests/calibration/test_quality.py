"""Drift, bandwidth, noise and freshness, without any device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specadvisor.calibration import freshness, quality
from specadvisor.calibration.checks import CheckFailed, Unreliable, require
from specadvisor.calibration.measurements import read_measurements
from specadvisor.calibration.rows import COLUMNS, Row, to_csv


def test_drift_is_noted_and_past_the_limit_refused() -> None:
    assert quality.check_drift([{"read": 1.00}, {"read": 1.04}]) == []
    assert "drifted by 8%" in quality.check_drift([{"read": 1.00}, {"read": 1.08}])[0]
    with pytest.raises(Unreliable, match="moved by 30%"):
        quality.check_drift([{"read": 1.0}, {"read": 1.1}, {"read": 1.3}])


def reads(gb_per_s: float, size: int = 1 << 30) -> list[Row]:
    return [Row("bandwidth", "read", size / gb_per_s / 1e3, bytes=size)]


def copies(gb_per_s: float, size: int = 1 << 30) -> list[Row]:
    return [Row("memory", "any", size / gb_per_s / 1e3, kernel="copy", bytes=size)]


def test_bandwidth_against_the_datasheet() -> None:
    assert quality.check_bandwidth(reads(4400), 4.8e12, 50e6) == []
    assert "reads reach only 60%" in quality.check_bandwidth(reads(2880), 4.8e12, 50e6)[0]
    assert "reads run at 110%" in quality.check_bandwidth(reads(5280), 4.8e12, 50e6)[0]
    assert "copies reach only 63%" in quality.check_bandwidth([*reads(4400), *copies(3024)], 4.8e12, 50e6)[0]
    with pytest.raises(Unreliable, match="cannot be"):
        quality.check_bandwidth(reads(6000), 4.8e12, 50e6)
    # a read that the cache holds says nothing about memory
    assert quality.check_bandwidth(reads(9000, 1 << 25), 4.8e12, 50e6) == []


def test_less_than_half_the_bandwidth_is_another_gpu_unless_it_is_a_slice() -> None:
    with pytest.raises(Unreliable, match="copies reach only 44%"):
        quality.check_bandwidth([*reads(4400), *copies(2112)], 4.8e12, 50e6)
    assert len(quality.check_bandwidth(reads(600), 4.8e12, 50e6, part_of_gpu=True)) == 1


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
