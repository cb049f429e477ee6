"""What one measured point per series is worth: it corrects the predictions at the series' other loads."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from specadvisor.advise.anchor import Anchor, Correction, correction
from specadvisor.ranges import Range

ANCHOR_K = 3
_RANGES = (("low", "predicted_throughput_speedup", "high"), ("tpot_low", "predicted_tpot_speedup", "tpot_high"))


def anchor_per_series(table: pd.DataFrame, predictions: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Predictions corrected by one measured speed-up per series, and which rows may be scored: those at other loads.

    A measured speed-up stands for a measured acceptance too. The anchor is the row at the lowest concurrency with the k
    nearest 3 (ties: the smaller); its throughput speed-up where printed, else its TPOT speed-up. Series with one load, or
    without a measured or predicted anchor, are not scored.
    """
    result, scored = predictions.copy(), pd.Series(False, index=table.index)
    for _, rows in table.groupby("series"):
        lowest = rows.concurrency.min()
        others = rows.index[rows.concurrency > lowest]
        fixed = _correction(rows[rows.concurrency == lowest].sort_values("k"), predictions)
        if others.empty or fixed is None:
            continue
        for names in _RANGES:
            part = result.loc[others, list(names)].to_numpy(float).T
            better = fixed.apply(Range(*part), table.concurrency.loc[others].to_numpy(float))
            result.loc[others, list(names)] = np.column_stack([better.low, better.mid, better.high])
        result.loc[others, "acceptance_known"] = True
        scored[others] = True
    return result, scored


def _correction(first: pd.DataFrame, predictions: pd.DataFrame) -> Correction | None:
    """The correction from the rows of a series' lowest load; None where its anchor was not measured or not predicted."""
    nearest: Any = first.iloc[int((first.k - ANCHOR_K).abs().argmin())]
    quantity: Literal["throughput", "tpot"] = "tpot" if np.isnan(nearest.throughput_speedup) else "throughput"
    measured = float(nearest[f"{quantity}_speedup"])
    predicted = float(predictions.loc[nearest.name, f"predicted_{quantity}_speedup"])
    if np.isnan(measured) or np.isnan(predicted):
        return None
    k = int(nearest.k)
    return correction([Anchor(float(nearest.concurrency), k, float(np.clip(measured, 0.02, k + 1)), quantity)], [predicted])
