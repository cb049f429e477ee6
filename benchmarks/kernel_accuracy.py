"""Errors of the kernel laws on shapes that were not fitted: python benchmarks/kernel_accuracy.py [--plots DIR] [--details FILE]

Every table (GPU, operator, format, engine, kernel) is cut by shape into four folds, all rows of one weight or head layout on
one side; each fold is predicted by a fit of the other three. Printed: each operator's mean over tables of the median and 90th
percentile error against its line, ratios T(M q)/T(M), fits from 24 designed points, transfer between GPUs, and timings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from kernel_tables import FILES, GPUS, Table, first_tables, fit_tables, not_shipped, quantiles, unsupported
from transfer import family_of, family_parameters, mean_quantiles, stranger_parameters, transfer_errors

from specadvisor import kernels
from specadvisor.calibration.fit import fit_parameters, take
from specadvisor.calibration.fit_laws import LAWS
from specadvisor.hardware import load_gpu

HOPPER, BLACKWELL = ("h100_sxm", "h200_sxm"), ("b200_sxm",)
DESIGNED_ROWS = (1, 16, 64, 128, 256, 1024)
DESIGNED_SHAPES = ((3072, 4096), (10240, 8192), (4096, 16384), (16384, 4096))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plots", type=Path, help="folder for one PNG per operator")
    parser.add_argument("--details", type=Path, help="Markdown file for the table of every kernel")
    arguments = parser.parse_args()
    started = time.perf_counter()
    tables = [t for name in FILES for t in fit_tables(name)]
    fitting = time.perf_counter() - started
    tables = [t for t in tables if not unsupported(t.gpu, t.operator, t.format, t.engine)]
    print_lines(tables)
    print_ratios([t for t in tables if t.operator == "gemm"])
    print_designed([t for t in tables if t.operator == "gemm"])
    print_transfer([t for t in tables if t.operator == "gemm"])
    print_timings(tables, fitting)
    if arguments.details:
        arguments.details.write_text(details(tables), encoding="utf-8")
    else:
        print(details(tables))
    if arguments.plots:
        from kernel_plots import write_plots

        write_plots(tables, arguments.plots)


def print_lines(tables: list[Table]) -> None:
    """The lines to reach, and what is reached."""
    datacentre = (*HOPPER, *BLACKWELL)

    def of(operator: str, gpus: tuple[str, ...] = GPUS) -> list[Table]:
        return [t for t in tables if t.operator == operator and t.gpu in gpus]

    first = list(first_tables(of("attention")).values())
    lines = [
        ("GEMM, cold, M 1..1024", calibrated(of("gemm")), (5.3, 16.5)),
        ("decode attention, cache > L2", calibrated(first), (5.5, 18)),
        ("  full attention only", calibrated(first, lambda t: t.fitted.used["window"].to_numpy() == 0), None),
        ("MLA decode, Hopper", calibrated(of("mla", HOPPER)), (5, 14)),
        ("MLA decode, Blackwell", calibrated(of("mla", BLACKWELL)), (9, 26)),
        ("MoE, balanced", calibrated(of("moe"), lambda t: routing(t) == "balanced"), (9.5, 35)),
        ("MoE, power law", calibrated(of("moe"), lambda t: routing(t) != "balanced"), (10.5, 44)),
        ("linear attention, datacentre", calibrated([t for t in of("recurrent", datacentre) if t.kernel]), (4, 10)),
        ("  all kernels of an engine in one", calibrated([t for t in of("recurrent", datacentre) if not t.kernel]), None),
        ("all-reduce, H100 H200 B200", calibrated(of("all_reduce", datacentre)), (8, 40)),
        ("all-reduce, PCIe", calibrated(of("all_reduce", ("l40s", "rtx_pro_6000_server"))), None),
        ("sparse attention, several tokens", calibrated(of("sparse_attention")), None),
        ("indexer logits", calibrated(of("index_logits")), None),
    ]
    for operator, name, with_lines in (
        ("gemm", "GEMM", ((6, 18), (13, 30))),
        ("attention", "attention", ((8, 24), None)),
        ("moe", "MoE", ((17.5, 43), None)),
        ("mla", "MLA", (None, None)),
        ("recurrent", "linear attention", (None, None)),
        ("all_reduce", "all-reduce", (None, None)),
    ):
        ours = [t for t in of(operator) if not not_shipped(t) and (operator != "recurrent" or not t.kernel)]
        for with_sibling, label, line in zip((True, False), ("with a sibling", "no sibling"), with_lines, strict=True):
            errors = transfer_errors(ours, with_sibling)
            lines.append((f"{name}, family default {label}", (mean_quantiles(errors), len(errors)), line))
    print(f"{'unseen shapes':44s} {'tables':>6s}  {'median / p90 %':>15s}  line")
    for label, (found, count), line in lines:
        reached = f"{found[0] * 100:6.1f} / {found[1] * 100:.0f}" if found else "none"
        verdict = "" if line is None or found is None else f"{line[0]} / {line[1]}{verdict_of(found, line)}"
        print(f"{label:44s} {count:6d}  {reached:>15s}  {verdict}")


def verdict_of(found: tuple[float, float], line: tuple[float, float]) -> str:
    missed = [n for n, value, limit in zip(("median", "p90"), found, line, strict=True) if value * 100 > limit + 0.05]
    return f"   missed: {', '.join(missed)}" if missed else ""


def calibrated(
    tables: list[Table], keep: Callable[[Table], np.ndarray] | None = None
) -> tuple[tuple[float, float] | None, int]:
    errors = {(t.name,): t.quantiles(keep(t) if keep else None) for t in tables}
    return mean_quantiles(errors), len(errors)


def routing(table: Table) -> np.ndarray:
    return table.fitted.used["routing"].to_numpy()


def print_ratios(tables: list[Table]) -> None:
    """T(M q) / T(M) at a fixed weight: what the choice of draft tokens hangs on."""
    pairs = pd.concat([ratio_pairs(t, q) for t in tables for q in (2, 4, 8, 16)])
    batches = pairs[pairs["m"].isin([2**i for i in range(8)])]
    print("\nratio T(M q) / T(M) of one weight, unseen shapes, median / p90 % (line 4.5 / 18)")
    for label, kept in (("M = 1, 2, 4 .. 128", batches), ("every M of the tables", pairs)):
        by_q = [f"q = {q}: {percent(quantiles(rows['error'].to_numpy()))}" for q, rows in kept.groupby("q")]
        means = kept.groupby("table")["error"].quantile([0.5, 0.9]).unstack().mean() * 100
        pooled = percent(quantiles(kept["error"].to_numpy()))
        print(f"  {label:22s} all pairs {pooled}   mean over tables {means[0.5]:.1f} / {means[0.9]:.0f}")
        print(f"  {'':22s} {'   '.join(by_q)}")


def ratio_pairs(table: Table, q: int) -> pd.DataFrame:
    used = table.fitted.used.assign(predicted=table.fitted.predictions)
    pairs = used.assign(m=used["m"] * q).merge(used, on=["m", "n", "k"], suffixes=("_one", "_many"))
    measured = pairs["us_many"].astype(float) / pairs["us_one"].astype(float)
    error = (pairs["predicted_many"] / pairs["predicted_one"] / measured - 1.0).abs()
    return pd.DataFrame({"table": table.name, "q": q, "m": pairs["m"] // q, "error": error})


def print_designed(tables: list[Table]) -> None:
    """Are 24 points enough? Fitted on them alone, pulled to parameters that never saw this GPU, scored on all other shapes."""
    first, rows = first_tables(tables), []
    for (gpu, operator, format, engine), table in first.items():
        used, law = table.fitted.used, LAWS[operator]
        chosen, on_design = designed_points(used)
        others = [name for name in ("ampere", "hopper", "blackwell", "ada", "blackwell_rtx") if name != family_of(gpu)]
        prior = family_parameters(first, family_of(gpu), operator, format, engine, without=gpu)
        prior = prior or stranger_parameters(first, others, operator, format, engine)
        terms = law.terms(load_gpu(gpu), used, format)
        seconds = used["us"].to_numpy(dtype=float) * 1e-6
        few = fit_parameters(operator, law, take(terms, chosen), seconds[chosen], prior)
        rest = ~on_design
        rows.append((*quantiles(table.errors_with(few)[rest]), *quantiles(table.fitted.errors()[rest])))
    few_median, few_p90, full_median, full_p90 = np.mean(rows, axis=0) * 100
    print(f"\n24 designed points, {len(rows)} GEMM tables, shapes outside the design, median / p90 %")
    print(f"  24 points {few_median:5.1f} / {few_p90:.0f}     full fit {full_median:5.1f} / {full_p90:.0f}")


def designed_points(used: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the 24 rows nearest to the design, and which rows have one of its four shapes."""
    sides = np.log(used[["n", "k"]].to_numpy(dtype=float))
    on_design, chosen = np.zeros(len(used), dtype=bool), set()
    for shape in DESIGNED_SHAPES:
        distance = np.abs(sides - np.log(shape)).sum(axis=1)
        same = np.flatnonzero((sides == sides[np.argmin(distance)]).all(axis=1))
        on_design[same] = True
        rows = used["m"].to_numpy()[same]
        chosen |= {same[np.argmin(np.abs(np.log(rows / m)))] for m in DESIGNED_ROWS}
    return np.array(sorted(chosen)), on_design


def print_transfer(tables: list[Table]) -> None:
    """Parameters of the H100 with the datasheet of the H200."""
    first = first_tables(tables)
    found = []
    for (gpu, operator, format, engine), table in first.items():
        source = first.get(("h100_sxm", operator, format, engine))
        if gpu == "h200_sxm" and source:
            found.append(quantiles(table.errors_with(source.fitted.parameters)))
    median, p90 = np.mean(found, axis=0) * 100
    print(f"\nGEMM, H100's parameters with H200's datasheet, {len(found)} tables: {median:.1f} / {p90:.0f} % (line: median 8)")


def print_timings(tables: list[Table], fitting_s: float) -> None:
    """Processor time of one fit with its folds, and of a million shapes."""
    slowest = 0.0
    for table in [t for t in tables if t.gpu == "h100_sxm" and t.operator in ("gemm", "moe")][:6]:
        law = LAWS[table.operator]
        terms = law.terms(load_gpu(table.gpu), table.fitted.used, table.format)
        seconds = table.fitted.used["us"].to_numpy(dtype=float) * 1e-6
        started = time.process_time()
        for _ in range(5):
            fit_parameters(table.operator, law, terms, seconds)
        slowest = max(slowest, time.process_time() - started)
    rng = np.random.default_rng(1)
    m = rng.integers(1, 1025, 1_000_000)
    n, k = rng.integers(1024, 16385, (2, 1_000_000))
    best = min(_timed(lambda: kernels.gemm_s("h100_sxm", m, n, k, "fp8")) for _ in range(3))
    print(f"\nfit of one GPU x format with its four folds: {slowest:.2f} s of processor time at most (line 2 s)")
    print(f"all {len(tables)} fits: {fitting_s:.0f} s      gemm_s, 1,000,000 shapes: {best:.2f} s (line 0.5 s)")


def _timed(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def details(tables: list[Table]) -> str:
    """Markdown: every table with its three errors."""
    sibling, stranger = {}, {}
    for operator in {t.operator for t in tables}:
        ours = [t for t in tables if t.operator == operator and not not_shipped(t)]
        sibling |= transfer_errors(ours, True)
        stranger |= transfer_errors(ours, False)
    first = {id(t) for t in first_tables(tables).values()}
    lines = [
        "| GPU | operator | format | engine | kernel | rows | calibrated | sibling | no sibling | note |",
        "|" + "---|" * 10,
    ]
    for t in sorted(tables, key=lambda t: (t.operator, t.gpu, t.format, t.engine, -len(t.fitted.used))):
        key = (t.gpu, t.operator, t.format, t.engine)
        cells = [percent(t.quantiles()), *(percent(found.get(key)) if id(t) in first else "" for found in (sibling, stranger))]
        note = "; ".join(filter(None, (f"not shipped: {why}" if (why := not_shipped(t)) else "", *t.fitted.warnings)))
        kernel = t.kernel.removeprefix("vllm_").removeprefix("sglang_")[-48:]
        lines.append(
            f"| {' | '.join((t.gpu, t.operator, t.format, t.engine, kernel, str(len(t.fitted.used)), *cells, note))} |"
        )
    return "\n".join(lines) + "\n"


def percent(pair: tuple[float, float] | None) -> str:
    return "" if pair is None or np.isnan(pair[0]) else f"{pair[0] * 100:.1f} / {pair[1] * 100:.0f}"


if __name__ == "__main__":
    main()
