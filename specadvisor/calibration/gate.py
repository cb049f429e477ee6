"""Whether a fit may be used: the one gate for every way in (a GPU, the processor, a table of times)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.cpu_law import law_of
from specadvisor.calibration.fit import FEWEST_ROWS, L2_MARGIN
from specadvisor.formats import weight_format
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import KernelProfile

if TYPE_CHECKING:
    import pandas as pd

# The worst of the published tables that are shipped: 23% median, 129% at the 90th percentile.
WORST_MEDIAN, WORST_P90 = 0.35, 2.0
# A single row is plain decoding, what every speed-up is relative to.
SINGLE_ROW_NOTE, WORST_SINGLE_ROW = 0.2, 0.5
# Share of the datasheet's speed. The best row of the slowest published table reaches 6%, half of the rows of the fastest 124%.
SLOWEST, FASTEST = 0.03, 1.25


def check_fit(profile: KernelProfile) -> list[str]:
    """Notes on a profile's errors; raises ``Unreliable`` with the numbers where an entry is no description of its rows."""
    bad, notes = [], []
    for e in profile.entries:
        name = " ".join(part for part in (e.operator, e.format, e.kernel or e.engine) if part)
        if e.median_error > WORST_MEDIAN or e.p90_error > WORST_P90:
            bad.append(f"{name} is off by {e.median_error:.0%} (median), {e.p90_error:.0%} (90th percentile)")
        single = e.provenance.get("single_row_error", 0.0)
        if single > WORST_SINGLE_ROW:
            bad.append(f"{name} is off by {single:.0%} for a single row, which plain decoding is made of")
        elif single > SINGLE_ROW_NOTE:
            notes.append(f"fit of {name}: off by {single:.0%} for a single row, which plain decoding is made of")
        notes += [f"fit of {name}: {warning}" for warning in e.provenance.get("warnings", ())]
    if bad:
        raise Unreliable(
            f"The times do not follow the law of their kernels: {'; '.join(bad)}; allowed are {WORST_MEDIAN:.0%}, "
            f"{WORST_P90:.0%} and {WORST_SINGLE_ROW:.0%}. Nothing was written. Measure again with nothing else running."
        )
    return notes


def check_speeds(rows: pd.DataFrame, gpu: Gpu) -> None:
    """Raise ``Unreliable`` where the times of a kernel are far outside of what ``gpu`` can do: another unit, another GPU."""
    for key, group in rows.groupby(["operator", "format", "engine", "kernel"]):
        operator, format, engine, kernel = map(str, key)
        shares = _speeds(group, gpu, operator, format)
        if len(shares) < FEWEST_ROWS:
            continue
        name = f"{operator} {format} {kernel or engine}"
        if shares.max() < SLOWEST:
            raise Unreliable(
                f"{name}: no row reaches more than {shares.max():.2g} of the speed of {gpu.name}'s datasheet: nanoseconds in "
                "us, or rows of another machine? Nothing was written."
            )
        if np.median(shares) > FASTEST:
            raise Unreliable(
                f"{name}: half of the rows are more than {np.median(shares):.3g} times as fast as {gpu.name}'s datasheet "
                "allows: milliseconds or seconds in us, operands in a cache, or rows of another GPU? Nothing was written."
            )


def _speeds(rows: pd.DataFrame, gpu: Gpu, operator: str, format: str) -> np.ndarray:
    """Share of the datasheet's speed of every row that reads from memory; none where the operator has no such limit."""
    read = law_of(gpu, operator).footprint(rows, format)
    sets, seconds = rows["sets"].to_numpy(dtype=np.float64), rows["us"].to_numpy(dtype=np.float64) * 1e-6
    roofline = read / gpu.memory_bytes_per_s
    if operator == "gemm" and gpu.confidence != "low":  # the peaks of an unlisted GPU are an estimate
        m, n, k = (rows[name].to_numpy(dtype=np.float64) for name in ("m", "n", "k"))
        roofline = np.maximum(roofline, 2.0 * m * n * k / gpu.peak(weight_format(format).compute))
    return (roofline / seconds)[np.isfinite(read) & (read * sets > L2_MARGIN * gpu.l2_bytes)]
