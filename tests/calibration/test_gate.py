"""What may not become a profile: wrong units, other machines, fits that describe nothing; and what an error is an error on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from specadvisor.calibration import cpu_run, gate
from specadvisor.calibration.build_profile import build_profile, fitted_profile
from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.cpu_machine import EFFORT, QUICK_EFFORT
from specadvisor.calibration.cpu_plan import make_cpu_plan
from specadvisor.calibration.fit import fit_profile
from specadvisor.calibration.plan import Plan
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.hardware import load_gpu
from specadvisor.hardware.gpu import Gpu
from specadvisor.kernels import gemm_s

H200 = load_gpu("h200_sxm")
CPU = Gpu("cpu", "x", "cpu", 1, 35e9, 1e10, 2, 1e6, {"bf16": 1.05e11}, 0.0, False, 0.0, 3e9, 1.0, 1)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def products(shapes: tuple[tuple[int, int], ...], noise: float = 0.02) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    m, n, k = np.array([(m, n, k) for n, k in shapes for m in ROWS], dtype=float).T
    us = gemm_s(H200, m, n, k, "bf16", "vllm") * 1e6 * np.exp(noise * rng.standard_normal(len(m)))
    return pd.DataFrame({"operator": "gemm", "format": "bf16", "engine": "vllm", "m": m, "n": n, "k": k, "us": us, "sets": 64})


def attention(scatter: float = 0.0) -> pd.DataFrame:
    """One head shape: 8 query heads on a KV head, 128 wide."""
    rng = np.random.default_rng(6)
    rows = [
        {"operator": "attention", "format": "bf16", "engine": "vllm", "batch": b, "query_tokens": q, "context": c, "heads": 64,
         "kv_heads": 8, "head_dim": 128, "sets": 64, "us": (8 + b * c * 4096 / 4e6) * np.exp(scatter * rng.uniform(-1, 1))}
        for b in (1, 8, 32) for c in (2048, 8192) for q in (1, 4)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_single_row_of_a_blas_is_in_the_law_and_in_the_error() -> None:
    """Tiles of 16 rows cost more than reading the weight for one row; without single rows the fit made all of them pay that."""
    rows = []
    for n, k in ((1024, 1024), (2048, 1024), (1024, 2048)):
        for m in (1, 2, 8, 16, 32, 64, 128):
            tiled = 4 * n * k / 20e9 + 2 * 16 * np.ceil(m / 16) * n * k / 95e9
            us = float(tiled if m > 1 else 4 * n * k / 30e9) * 1e6
            rows.append(Row("gemm", "fp32", us, engine="llama_cpp", m=m, n=n, k=k, sets=20))
    profile, _ = build_profile(Run(rows=rows), CPU)
    (entry,) = profile.entries
    assert entry.provenance["rows"] == 21
    assert entry.provenance["single_row_error"] < 0.15
    gpu = replace(CPU, kernels=profile)
    assert gemm_s(gpu, 1.0, 3072, 3072, "fp32", "llama_cpp") == pytest.approx(4 * 3072 * 3072 / 30e9, rel=0.1)


def test_a_single_row_that_the_law_misses_is_refused() -> None:
    table = products(((8192, 8192), (4096, 16384)))
    table.loc[table["m"] == 1, "us"] *= 4
    with pytest.raises(Unreliable, match="for a single row"):
        fitted_profile(table, H200, {})


def test_a_busy_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sentinels = iter([{"matrix product": 1e-3}, {"matrix product": 12.6e-3}])
    monkeypatch.setattr(cpu_run, "_sentinel", lambda effort: next(sentinels))
    with pytest.raises(Unreliable, match="moved by 1160%"):
        cpu_run.run_on_cpu(Plan(()), "llama_cpp", lambda done_s, what: None, QUICK_EFFORT)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.assign(us=t["us"] * 1000), "nanoseconds in us"),
        (lambda t: t.assign(us=t["us"] / 1000), "milliseconds or seconds in us"),
        (lambda t: t.assign(us=t["us"] * np.exp(np.random.default_rng(0).uniform(-1.5, 2.5, len(t)))), "off by"),
    ],
    ids=["nanoseconds", "milliseconds", "noise"],
)
@pytest.mark.parametrize(
    "table", [products(((8192, 8192), (4096, 16384), (16384, 4096))), attention()], ids=["gemm", "attention"]
)
def test_times_that_cannot_be_are_refused(
    table: pd.DataFrame, change: Callable[[pd.DataFrame], pd.DataFrame], says: str
) -> None:
    fitted_profile(table, H200, {})
    with pytest.raises(Unreliable, match=says) as error:
        fitted_profile(change(table), H200, {})
    assert "Nothing was written" in str(error.value)


def test_warnings_of_the_fit_are_notes() -> None:
    table = products(((8192, 8192), (4096, 16384), (16384, 4096)), noise=0.0)
    table["us"] *= 120  # below 1% of the bandwidth
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("WORST_MEDIAN", "WORST_P90", "WORST_SINGLE_ROW"):
            patch.setattr(gate, limit, 99.0)
        patch.setattr(gate, "SLOWEST", 0.0)
        _, notes = fitted_profile(table, H200, {})
    assert any("ends on its bound" in note for note in notes)


@pytest.mark.parametrize(
    ("table", "left_out"),
    [(products(((8192, 8192),), noise=0.05), "m left out"), (attention(0.05), "batch and context left out")],
    ids=["gemm", "attention"],
)
def test_the_error_of_one_shape_is_measured_on_its_sizes(table: pd.DataFrame, left_out: str) -> None:
    entry = fit_profile(table, H200).entries[0]
    assert entry.provenance["error_on"].startswith(left_out)
    assert entry.error_measured
    assert 0.005 < entry.median_error < 0.2
    assert entry.median_error != 0.1


def test_where_nothing_can_be_left_out_the_residual_is_the_least() -> None:
    table = attention().head(6)
    quiet = fit_profile(table, H200).entries[0]
    assert (quiet.median_error, quiet.error_measured) == (0.1, False)
    loud = fit_profile(table.assign(us=table["us"] * [1, 50, 1, 40, 1, 30]), H200).entries[0]
    assert loud.median_error > 0.3


def test_seconds_of_the_processors_plan_by_hand() -> None:
    """Quick: 21 products and 16 attentions are each measured for 40 ms at least, and their operands filled in two rounds."""
    quick, full = make_cpu_plan(quick=True), make_cpu_plan()
    filled = sum(2 * 5 * (1 << 20) for _ in range(3))  # less than that for any machine: last-level caches have 1 MB
    assert quick.sections[0].seconds >= 21 * QUICK_EFFORT.budget_s + filled / 2.7e9
    largest = 2.0 * 256 * 4096 * 4096 / 8e10 + 4.0 * 4096 * 4096 / 1e10
    assert full.sections[0].seconds >= 70 * EFFORT.budget_s + 2 * 6 * largest
    assert full.seconds == pytest.approx(sum(s.seconds for s in full.sections) + full.other_s)
    assert full.other_s > 1
