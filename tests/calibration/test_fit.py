"""The fit finds what made the data, leaves out what is not a kernel time, and says what it is unsure of."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from specadvisor.calibration.fit import fit_profile, fit_table, usable_rows
from specadvisor.calibration.fit_laws import LAWS
from specadvisor.calibration.folds import shape_folds
from specadvisor.calibration.measurements import check_measurements, read_measurements
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.kernels.gemm import gemm_law, gemm_terms
from specadvisor.kernels.parameters import find_entry

H100 = load_gpu("h100_sxm")
TABLES = Path(__file__).parents[2] / "benchmarks" / "data" / "kernel_tables"
TRUE = {
    "t0_s": 3e-6, "em": 0.85, "ec": 0.7, "tk_s": 2e-7, "step": 0.5, "wave": 0.4, "norm": 4.0, "jump": 1.3,
    "row_cycles": 0.0, "row_limit": 8.0, "wide_factor": 1.0,
}  # fmt: skip


def gemm_table(noise: float = 0.03, sets: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    shapes = [(n, k) for n in (3072, 4096, 10240, 16384) for k in (4096, 8192, 16384)]
    rows = [(m, n, k) for n, k in shapes for m in (1, 2, 8, 16, 17, 33, 64, 96, 128, 129, 192, 256, 257, 512, 1024)]
    m, n, k = np.array(rows, dtype=float).T
    us = gemm_law(TRUE, gemm_terms(H100, m, n, k, "bf16")) * 1e6 * np.exp(noise * rng.standard_normal(len(m)))
    return pd.DataFrame({"operator": "gemm", "format": "bf16", "m": m, "n": n, "k": k, "us": us, "sets": sets})


def test_fit_recovers_the_parameters():
    fitted = fit_table(H100, "gemm", "bf16", check_measurements(gemm_table()))
    assert fitted.parameters["em"] == pytest.approx(TRUE["em"], rel=0.03)
    assert fitted.parameters["ec"] == pytest.approx(TRUE["ec"], rel=0.15)
    assert fitted.parameters["t0_s"] == pytest.approx(TRUE["t0_s"], rel=0.5)
    assert np.median(fitted.errors()) < 0.03
    assert np.quantile(fitted.errors(), 0.9) < 0.09
    assert not fitted.warnings


def test_outliers_do_not_decide():
    table = gemm_table()
    table.loc[::25, "us"] *= 3
    fitted = fit_table(H100, "gemm", "bf16", check_measurements(table))
    assert fitted.parameters["em"] == pytest.approx(TRUE["em"], rel=0.05)


def test_24_designed_points_are_enough():
    everything = check_measurements(gemm_table())
    few = everything[everything["m"].isin([1, 16, 64, 128, 256, 1024])]
    few = few[few[["n", "k"]].apply(tuple, axis=1).isin([(3072, 4096), (10240, 8192), (4096, 16384), (16384, 4096)])]
    assert len(few) == 24
    parameters = fit_table(H100, "gemm", "bf16", few, find_entry("h200_sxm", "gemm", "bf16", "vllm").parameters).parameters
    terms = gemm_terms(H100, *(everything[c].to_numpy(float) for c in "mnk"), "bf16")
    assert np.median(np.abs(gemm_law(parameters, terms) * 1e6 / everything["us"] - 1)) < 0.04


def test_warm_impossible_and_forced_rows_are_left_out():
    table = check_measurements(gemm_table(noise=0.0))
    table["sets"] = np.where(table["n"] == 3072, 1, table["sets"])  # 25 MB to 100 MB: below 1.3 x 50 MiB up to 8192 x 3072
    table["auto"] = np.where(table["m"] == 2, 0, 1)
    table.loc[table["m"] == 1, "us"] = 1.0
    used, dropped = usable_rows(H100, LAWS["gemm"], table, "bf16")
    assert dropped["read from L2"] == 30
    assert dropped["faster than memory allows"] == 10
    assert dropped["forced kernel choice"] == 10
    assert len(used) == len(table) - 50


def test_all_rows_of_a_shape_are_on_one_side():
    table = check_measurements(gemm_table())
    folds = pd.Series(shape_folds(table, ("n", "k")))
    assert folds.groupby([table["n"], table["k"]]).nunique().max() == 1
    assert folds.nunique() > 1
    assert (shape_folds(table.sample(frac=1, random_state=1).sort_index(), ("n", "k")) == folds).all()


def test_a_parameter_on_its_bound_is_reported():
    table = gemm_table(noise=0.0)
    table["us"] *= 120  # em below 1%
    fitted = fit_table(H100, "gemm", "bf16", check_measurements(table))
    assert any("ends on its bound" in warning for warning in fitted.warnings)


def test_profile_from_a_csv(tmp_path):
    attention = [
        {"operator": "attention", "format": "fp8", "us": 20 + batch * keys / 300, "batch": batch, "query_tokens": 1,
         "context": keys, "heads": heads, "kv_heads": 8, "head_dim": 128}
        for batch in (16, 32, 64) for keys in (4096, 8192, 16384) for heads in (8, 32)
    ]  # fmt: skip
    launch = [{"operator": "launch", "format": "none", "us": 3.0}]
    path = tmp_path / "mine.csv"
    pd.concat([gemm_table(), pd.DataFrame(attention), pd.DataFrame(launch)]).to_csv(path, index=False)
    profile = fit_profile(read_measurements(path), "h100_sxm", provenance={"source": "mine"})
    assert profile.source == "user" and len(profile.entries) == 2
    gemm = profile.find("gemm", "bf16", "sglang")
    assert gemm.state == "measured" and gemm.provenance["source"] == "mine" and gemm.provenance["rows"] == 180
    assert gemm.provenance["error_on"] == "shapes left out of the fit"
    assert profile.find("attention", "fp8", "vllm").parameters["em"] > 0
    assert profile.find("moe", "bf16", "vllm").state == "sibling"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="us"), "column us"),
        (lambda t: t.drop(columns="k"), "column k"),
        (lambda t: t.assign(operator="gemmm"), "Did you mean gemm"),
        (lambda t: t.assign(us=-1.0), "us in line 2"),
        (lambda t: t.assign(m="many"), "m in line 2"),
        (lambda t: t.head(3), "6 or more usable rows"),
        (lambda t: t.assign(sets=1, n=256), "read from L2"),
    ],
)
def test_unusable_tables_are_refused(change, says):
    with pytest.raises(InputError) as error:
        fit_profile(change(gemm_table()), "h100_sxm")
    assert says in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name in ("none.csv", "cut.parquet"):
        with pytest.raises(InputError, match="measurements"):
            read_measurements(tmp_path / name)


def test_shipped_profile_is_what_the_fit_gives():
    """One table of the repository, fitted again: the numbers of the shipped profile, in less than two seconds."""
    pytest.importorskip("pyarrow")
    table = read_measurements(TABLES / "gemm.parquet")
    table = table[(table["gpu"] == "h200_sxm") & (table["engine"] == "vllm") & (table["format"] == "bf16")]
    started = time.process_time()
    fitted = fit_table(load_gpu("h200_sxm"), "gemm", "bf16", table)
    assert time.process_time() - started < 8  # under 2 s on one core; all threads count here
    shipped = find_entry("h200_sxm", "gemm", "bf16", "vllm")
    assert len(fitted.used) == shipped.provenance["rows"]
    for name in ("t0_s", "em", "ec", "tk_s"):
        assert fitted.parameters[name] == pytest.approx(shipped.parameters[name], rel=0.02)
    assert np.quantile(fitted.errors(), 0.5) == pytest.approx(shipped.median_error, abs=0.002)


def test_a_floor_measured_inside_a_graph_of_many_calls_is_not_scaled_again():
    alone = fit_table(H100, "gemm", "bf16", check_measurements(gemm_table())).parameters
    shared = fit_table(H100, "gemm", "bf16", check_measurements(gemm_table().assign(calls=64))).parameters
    terms = gemm_terms(H100, np.array([1.0]), np.array([1024.0]), np.array([1024.0]), "bf16")
    assert gemm_law(shared, terms, 0.3) == pytest.approx(gemm_law(shared, terms, 1.0))
    assert gemm_law(alone, terms, 1.0) - gemm_law(alone, terms, 0.3) == pytest.approx(0.7 * alone["t0_s"])
