"""Predict a table of measured sweeps and score the predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from specadvisor.errors import InputError
from specadvisor.validation.anchored import anchor_per_series as with_anchors
from specadvisor.validation.predict import Acceptance, predict, with_choice
from specadvisor.validation.score import BOOTSTRAP_DRAWS, Score, score
from specadvisor.validation.sweeps import read_sweeps


@dataclass(frozen=True)
class Validation:
    """``predictions``: one row per row of the sweep. ``scores``: by subset and slice. ``unpredicted``: rows by reason."""

    predictions: pd.DataFrame
    scores: dict[str, Score]
    unpredicted: dict[str, int]


def validate(
    sweeps: str | Path | pd.DataFrame,
    configs: Sequence[str | Path] = (),
    acceptance: Acceptance = "row",
    anchor_per_series: bool = False,
    draws: int = BOOTSTRAP_DRAWS,
) -> Validation:
    """Predict every row of ``sweeps`` (path or table) and score the result.

    ``configs``: folders with the configs that the rows name, looked up in order. ``acceptance``: ``row`` gives the model
    what each row measured, ``once`` one row per case, drafter and tree. ``anchor_per_series``: one measured speed-up per
    series corrects the others, and only those are scored. ``draws``: resamplings behind each interval.
    Rows that cannot be predicted get a ``reason``; a table that is not one raises ``InputError``.
    """
    if acceptance not in ("row", "once"):
        raise InputError("acceptance", acceptance, "row, once")
    table = read_sweeps(sweeps)
    predictions = predict(table, [str(folder) for folder in configs], acceptance)
    if anchor_per_series:
        predictions, scored = with_anchors(table, predictions)
        predictions = with_choice(predictions, table)
        judged = score(table[scored].reset_index(drop=True), predictions[scored], draws)
    else:
        judged = score(table, predictions, draws)
    reasons = predictions.reason[predictions.reason != ""].value_counts()
    left_out = dict.fromkeys(table.attrs["unusable"], 1) | {str(reason): int(n) for reason, n in reasons.items()}
    return Validation(predictions, judged, left_out)
