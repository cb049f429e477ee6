"""What one measured point per series is worth: it corrects the predictions at the series' other loads."""

from __future__ import annotations

import numpy as np
import pandas as pd

from specadvisor.advise.anchor import Anchor, correction
from specadvisor.ranges import Range

ANCHOR_K = 3
_RANGES = (("low", "predicted_throughput_speedup", "high"), ("tpot_low", "predicted_tpot_speedup", "tpot_high"))


def anchor_per_series(table: pd.DataFrame, predictions: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Predictions corrected by one measured speed-up per series, and which rows may be scored: those at other loads.

    A measured speed-up stands for a measured acceptance too. The anchor is the row at the lowest concurrency with the k nearest 3 (ties: the smaller); its throughput speed-up
    where printed, else its TPOT speed-up. Series with one load, or without a measured or predicted anchor, are not scored.
    """
    result, scored = predictions.copy(), pd.Series(False, index=table.index)
    for _, rows in table.groupby("series"):
        lowest = rows.concurrency.min()
        others = rows.index[rows.concurrency > lowest]
        if others.empty:
            continue
        first = rows[rows.concurrency == lowest].sort_values("k")
        row = first.iloc[int((first.k - ANCHOR_K).abs().argmin())]
        quantity = "throughput" if row.throughput_speedup == row.throughput_speedup else "tpot"
        measured, predicted = row[f"{quantity}_speedup"], predictions.at[row.name, f"predicted_{quantity}_speedup"]
        if not (measured == measured and predicted == predicted):
            continue
        fixed = correction([Anchor(row.concurrency, int(row.k), float(np.clip(measured, 0.02, row.k + 1)), quantity)], [predicted])
        for names in _RANGES:
            part = result.loc[others, list(names)].to_numpy(float).T
            better = fixed.apply(Range(*part), table.concurrency.loc[others].to_numpy(float))
            result.loc[others, list(names)] = np.column_stack([better.low, better.mid, better.high])
        result.loc[others, "acceptance_known"] = True
        scored[others] = True
    return result, scored
