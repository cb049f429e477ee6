"""What moves acceptance away from the catalogue's condition: a factor on AL - 1, language, another k (context: ``context``).

The temperature factors are data (``profiles/acceptance/temperature.csv``), computed from paired rows of the catalogue.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from specadvisor.acceptance.context import context_factor
from specadvisor.acceptance.shape import bisect, logit
from specadvisor.acceptance.survival import Survival
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

# A round at a larger k starts after a rejection, so at harder text, more often: s_1 is .834 with one MTP step and .762
# with eight (vLLM pull request 48892). Log of AL - 1 per unit of log((k_measured + 1) / (k + 1)).
BIAS_PER_LOG_K = 0.06


def with_gain(curve: Survival, factor: float, k: int = 3) -> Survival:
    """The curve whose AL(k) - 1 is ``factor`` times as large: all conditionals move by one amount in the logit."""
    if not np.isfinite(factor) or factor < 0:
        raise InputError("acceptance factor", factor, "a number of at least 0")
    if factor == 1.0:
        return curve
    if factor == 0.0:
        return replace(curve, s=np.zeros_like(curve.s), tail=0.0, counted=None)
    a = np.clip(curve.conditional, 1e-9, 1 - 1e-9)
    odds = np.log(a / (1 - a))
    k = min(k, curve.k_max)
    want = min(factor * (float(curve.acceptance_length(k)) - 1.0), 0.999 * k)

    def survival(shift: float) -> FloatArray:
        return np.asarray(np.cumprod(1.0 / (1.0 + np.exp(-(odds + shift)))))

    shift = bisect(lambda shift: float(survival(shift)[:k].sum()), want)
    tail = curve.tail if curve.tail is None else float(1.0 / (1.0 + np.exp(-(logit(curve.tail) + shift))))
    return replace(curve, s=survival(shift), tail=tail, counted=None)


def context_shift(kind: str, context: float, measured_context: float) -> float:
    """Factor on AL - 1 at ``context`` where it was measured at ``measured_context`` with a drafter of unknown training."""
    there, here = (float(context_factor(kind, tokens)) for tokens in (measured_context, context))
    return here / there


def language_code(language: str) -> str:
    """The first part of a language tag (``de`` of ``de-AT``); raises ``InputError`` for what is none."""
    if not isinstance(language, str) or not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", language):
        raise InputError("language", language, "a language tag such as en, de or zh-CN")
    return re.split("[-_]", language.lower())[0]


def language_note(kind: str, language: str) -> str:
    """Why a prior in another language uses the multilingual level."""
    pruned = " (a pruned draft vocabulary makes it worse)" if kind.startswith("eagle") else ""
    return f"language {language}: the multilingual level of the catalogue is used{pruned}"


def bias_at(measured_k: int, k: int) -> float:
    """Factor by which AL(k) - 1 is likely to differ from what a list measured at ``measured_k`` says."""
    return float(np.exp(BIAS_PER_LOG_K * np.log((measured_k + 1) / (k + 1))))
