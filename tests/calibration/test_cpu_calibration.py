"""The processor backend: measured for real, on few and small points."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specadvisor.calibration import build_profile, cpu_machine, cpu_run, gate, quality
from specadvisor.calibration.cpu_plan import make_cpu_plan
from specadvisor.calibration.entry import calibrate
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.calibration.save import save, target_path
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import KernelEntry, KernelProfile
from specadvisor.kernels import gemm_s


def test_quick_calibration_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_machine, "last_level_cache_bytes", lambda: 1 << 20)
    for limit in ("WORST_MEDIAN", "WORST_P90", "WORST_SINGLE_ROW"):  # other programs may hold this processor
        monkeypatch.setattr(gate, limit, 1e9)
    monkeypatch.setattr(quality, "CPU_DRIFT_LIMIT", 1e9)
    seen: list[float] = []
    done = calibrate(device="cpu", quick=True, out=tmp_path, progress=lambda s, what: seen.append(s))
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(make_cpu_plan(quick=True).seconds)
    data = json.loads((tmp_path / "cpu.json").read_text())
    assert data["gpu"] == "cpu"
    assert data["conditions"]["blas"]
    table = [line for line in (tmp_path / "cpu.csv").read_text().splitlines() if not line.startswith("#")]
    assert len(table) == len(done.rows) + 1
    gpu = load_gpu(str(done.path))
    seconds = gemm_s(gpu, np.array([1.0, 64.0]), 1024, 1024, "fp32", "llama_cpp")
    assert 0 < seconds[0] < seconds[1] < 1
    entries = {entry.operator: entry for entry in done.profile.entries}
    assert entries.keys() == {"gemm", "attention"}
    assert all(entry.error_measured and entry.provenance["measured_format"] == "fp32" for entry in entries.values())


def test_a_saved_processor_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    with pytest.raises(InputError, match="specadvisor calibrate --device cpu"):
        load_gpu("cpu")
    entry = KernelEntry("gemm", "bf16", "llama_cpp", load_gpu("l40s").kernels.entries[0].parameters, "measured", 0.1, 0.3)
    save(Run(), KernelProfile("cpu", (entry,), "user"), machine(), target_path("cpu", None), datasheet=True)
    found = load_gpu("CPU")
    assert (found.id, found.family) == ("cpu", "cpu")
    assert found.kernels.find("gemm", "bf16", "llama_cpp").origin == "user"
    assert found.kernels.find("memory", "any", "llama_cpp").origin == "family"


def machine() -> Gpu:
    return Gpu("cpu", "x", "cpu", 1, 40e9, 1e10, 2, 1e6, {"bf16": 2e11}, 0.0, False, 0.0, 3e9, 1.0, 1)


def test_fit_finds_a_packing_blas_and_its_single_row_routine() -> None:
    """Invented times: a weight is packed at 10 GB/s, then multiplied at 150 GFLOP/s; one row reads it at 32 GB/s."""
    rows = []
    for n, k in ((1024, 4096), (4096, 1024), (2048, 2048), (4096, 4096), (8192, 2048)):
        for m in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            seconds = 4 * n * k / 10e9 + 2 * m * n * k / 150e9 if m > 1 else 4 * n * k / 32e9
            rows.append(Row("gemm", "fp32", seconds * 1e6, engine="llama_cpp", m=m, n=n, k=k, sets=20))
    profile, _ = build_profile.build_profile(Run(rows=rows), machine())
    assert profile.entries[0].provenance["rows"] == len(rows)  # the single rows count in the error
    assert profile.entries[0].provenance["single_row_error"] < 0.05
    gpu = replace(machine(), kernels=profile)
    m, n, k = np.array([1.0, 2.0, 24.0, 100.0]), 3072, 3072
    want = np.where(m > 1, 4 * n * k / 10e9 + 2 * m * n * k / 150e9, 4 * n * k / 32e9)
    assert gemm_s(gpu, m, n, k, "fp32", "llama_cpp") == pytest.approx(want, rel=0.1)


def test_speeds_the_run_reached_count() -> None:
    rows = [Row("gemm", "fp32", 100.0, m=1, n=1000, k=1000), Row("gemm", "fp32", 1000.0, m=256, n=1000, k=1000)]
    gpu = cpu_machine.with_reached_speeds(machine(), rows)
    assert gpu.memory_bytes_per_s == pytest.approx(1.15 * 40e9)  # 4 MB in 100 us
    assert gpu.peaks["bf16"] == pytest.approx(5.12e11)


def test_disturbed_samples_are_left_out() -> None:
    assert cpu_machine.undisturbed([5.0, 1.0, 1.1, 9.0, 1.2, 7.0]) == [1.0, 1.1, 1.2]


def test_visible_keys_are_causal_from_the_bottom_right() -> None:
    visible = cpu_run.visible_keys(query_tokens=2, group=2, context=4)
    assert visible.sum(axis=1).tolist() == [3, 3, 4, 4]
