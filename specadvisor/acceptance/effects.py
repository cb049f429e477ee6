"""What moves acceptance away from the catalogue's condition: temperature, context length, language.

All factors act on AL - 1 and come from knowledge of paired published rows; each has its source beside it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specadvisor.acceptance.shape import bisect, logit
from specadvisor.acceptance.survival import Survival
from specadvisor.errors import InputError

# Median of (AL - 1 at T = 1) / (AL - 1 at T = 0) over paired rows of the catalogue.
TEMPERATURE = {
    "mtp": 0.93, "eagle3": 0.93, "eagle3_1": 0.93, "eagle2": 0.90, "dspark": 0.89, "dflash2": 0.89,
    "ngram": 0.89, "suffix": 0.89, "eagle": 0.87, "dflash": 0.85, "domino": 0.85, "draft_model": 0.67, "pard": 0.67,
}  # fmt: skip
TEMPERATURE_OTHER = 0.88


def temperature_factor(kind: str, temperature: float) -> float:
    """Factor on AL - 1 at ``temperature`` against greedy: linear in T up to 1, held above 1."""
    if not np.isfinite(temperature) or temperature < 0:
        raise InputError("temperature", temperature, "a number of at least 0")
    return 1.0 - (1.0 - TEMPERATURE.get(kind, TEMPERATURE_OTHER)) * min(float(temperature), 1.0)


def with_gain(curve: Survival, factor: float, k: int = 3) -> Survival:
    """The curve whose AL(k) - 1 is ``factor`` times as large: all conditionals move by one amount in the logit."""
    if factor <= 0 or not np.isfinite(factor):
        raise InputError("acceptance factor", factor, "a number above 0")
    if factor == 1.0:
        return curve
    a = np.clip(curve.conditional, 1e-9, 1 - 1e-9)
    odds = np.log(a / (1 - a))
    want = min(factor * (float(curve.acceptance_length(k)) - 1.0), 0.999 * k)

    def survival(shift: float) -> np.ndarray:
        return np.asarray(np.cumprod(1.0 / (1.0 + np.exp(-(odds + shift)))))

    def gain(shift: float) -> float:
        return float(survival(shift)[:k].sum())

    shift = bisect(gain, want)
    tail = curve.tail if curve.tail is None else float(1.0 / (1.0 + np.exp(-(logit(curve.tail) + shift))))
    return replace(curve, s=survival(shift), tail=tail)
