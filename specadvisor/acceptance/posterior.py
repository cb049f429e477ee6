"""The posterior of a survival curve: the kind's usual run, moved to what was measured as far as counts allow.

The model is a_j = limit + (first - limit) * rate^(j-1) (``shape.py``) with two free numbers, x = logit(first) and
y = logit(limit). Before any data they follow the drafter kind: x the catalogue's level, y its usual run. Counts enter
as binomials, so few rounds leave the interval wide. Where counts are many, each position follows its own count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specadvisor.acceptance.easy_hard import fit_easy_hard
from specadvisor.acceptance.effects import bias_at
from specadvisor.acceptance.least_squares import Fit, minimise
from specadvisor.acceptance.priors import shipped_table
from specadvisor.acceptance.shape import FLAT, SLOPE, EasyHard, KindShape, Shape, logit, sigmoid
from specadvisor.acceptance.survival import Survival
from specadvisor.ranges import FloatArray, Range

# Conditionals of published lists scatter by about this much around the fitted shape (benchmarks/acceptance_model.py).
SHAPE_ERROR = 0.02
# Level before any data when the kind is not given: the catalogue's spread over all kinds.
_ANY_LEVEL, _ANY_LEVEL_SD = 0.7, 1.5
BLOCK_KINDS = ("dflash", "dflash2", "domino", "dspark")


@dataclass(frozen=True, slots=True)
class AcceptanceFit:
    """``survival`` is the answer; ``shape`` and ``mixture`` explain it; ``rounds`` is None without counts."""

    survival: Survival
    shape: Shape
    mixture: EasyHard | None
    level_sd: float
    rounds: float | None
    notes: tuple[str, ...]

    def interval(self, k: int) -> Range:
        """AL(k) with its 80% interval."""
        return self.survival.range(k)


@dataclass(frozen=True, slots=True)
class _Counts:
    """What was measured, with half a draft accepted and half rejected added to every count (Jeffreys' prior).

    Counts of zero or of all thereby keep a width. ``noise``: variance of each number from counting alone.
    """

    conditional: FloatArray
    noise: FloatArray
    seen: FloatArray


def fit_curve(
    curve: Survival,
    usual: KindShape,
    kind: str | None = None,
    rounds: float | None = None,
    k_max: int = 16,
    block_size: int | None = None,
) -> AcceptanceFit:
    """Fit a measured curve with ``usual`` as the run expected before any data; the rest as in ``fit_acceptance``."""
    low, high = curve.measured or (1, curve.k_max)
    by_position = low == 1 and (high > 1 or curve.counted is not None)
    level, level_sd = _ANY_LEVEL, _ANY_LEVEL_SD
    if kind is not None:
        cell = shipped_table().cells[kind, "mixed"]
        level, level_sd = cell.level, cell.level_sd

    def shape_at(x: FloatArray) -> Shape:
        return Shape(sigmoid(x[0]), sigmoid(x[1]), usual.rate, usual.depth, usual.cliff)

    counts = _counts(curve, high, rounds) if by_position else None
    gain = float(curve.acceptance_length(high)) - 1.0
    gain_sd = 1e-3 * gain + 1e-6 if rounds is None else _gain_sd(usual, level, gain, high, rounds)

    def residuals(x: FloatArray) -> FloatArray:
        shape = shape_at(x)
        usual_limit = x[0] if usual is FLAT else usual.intercept + SLOPE * x[0]
        prior = [(x[1] - usual_limit) / usual.spread]
        if rounds is not None:
            prior.append((x[0] - level) / level_sd)
        if counts is None:
            return np.array([(float(shape.survival(high).sum()) - gain) / gain_sd, *prior])
        noise = SHAPE_ERROR**2 / np.maximum(np.concatenate(([1.0], curve.s[: high - 1])), 1e-3) + counts.noise
        return np.concatenate(((shape.conditional(high) - counts.conditional) / np.sqrt(noise), prior))

    start = logit(float(np.clip(curve.s[0], 0.02, 0.98)))
    fit = minimise(residuals, np.array([start, start if usual is FLAT else usual.intercept + SLOPE * start]))
    shape = shape_at(fit.x)
    s, sigma = _blend(curve, shape, shape_at, fit, rounds, counts, max(k_max, curve.k_max))
    notes = _notes(kind, high, by_position, block_size)
    seen = curve.counted if rounds is not None else None
    survival = Survival(
        s, sigma, curve.source, True, (low, high), notes=(*curve.notes, *notes), rounds=rounds, counted=seen
    )  # fmt: skip
    return AcceptanceFit(survival, shape, fit_easy_hard(survival.s), float(np.sqrt(fit.covariance[0, 0])), rounds, notes)


def _counts(curve: Survival, high: int, rounds: float | None) -> _Counts:
    if rounds is None:
        return _Counts(curve.conditional[:high], np.zeros(high), np.full(high, np.inf))
    seen = rounds * np.concatenate(([1.0], curve.s[: high - 1]))
    a = (seen * curve.conditional[:high] + 0.5) / (seen + 1.0)
    return _Counts(a, a * (1 - a) / (seen + 1.0), seen)


def _gain_sd(usual: KindShape, level: float, gain: float, k: int, rounds: float) -> float:
    """Standard deviation of a mean of accepted drafts over ``rounds``: that of the usual run through it.

    One round of the kind's usual gain joins the measured ones, so that a gain of 0 or of all k drafts keeps a width.
    """
    expected = float(usual.at(level).survival(k).sum())
    likely = usual.solve(1.0 + (rounds * gain + expected) / (rounds + 1.0), k)
    curve = Survival(likely.survival(k))
    return float(np.sqrt(curve.length_variance(k) / rounds))


def _blend(
    curve: Survival,
    shape: Shape,
    shape_at: Callable[[FloatArray], Shape],
    fit: Fit,
    rounds: float | None,
    counts: _Counts | None,
    k_max: int,
) -> tuple[FloatArray, float]:
    """Survival and the log standard deviation of AL - 1: measured positions drawn to the shape as counts allow."""
    high = curve.measured[1] if curve.measured else curve.k_max
    a = shape.conditional(k_max)
    own = np.zeros(k_max)
    if counts is not None:
        # The shape is worth as many rounds as its own scatter: a binomial of that variance.
        worth = np.maximum(a[:high] * (1 - a[:high]), 1e-3) / SHAPE_ERROR**2
        share = np.divide(counts.seen, counts.seen + worth, out=np.ones(high), where=np.isfinite(counts.seen))
        own[:high] = share
        a[:high] = share * counts.conditional + (1 - share) * a[:high]
    elif rounds is None:
        return curve.extended(k_max), curve.sigma
    s = np.asarray(np.cumprod(a))
    if rounds is None:
        return s, curve.sigma
    gain = float(s[:high].sum())
    sampling = own[:high] ** 2 * counts.noise if counts is not None else np.zeros(high)
    later = np.array([s[j:high].sum() for j in range(high)]) / np.maximum(a[:high], 1e-9)
    model = shape.conditional(high)
    moved = [(shape_at(fit.x + step).conditional(high) - model) / 1e-4 for step in 1e-4 * np.eye(2)]
    gradient = np.array([((1 - own[:high]) * change) @ later for change in moved])
    variance = float(later**2 @ sampling + gradient @ fit.covariance @ gradient)
    return s, min(1.5, float(np.sqrt(variance)) / max(gain, 1e-3))


def _notes(kind: str | None, high: int, by_position: bool, block_size: int | None) -> tuple[str, ...]:
    notes = []
    if by_position and high > 2:
        bias = 100 * (bias_at(high, 1) - 1)
        notes.append(f"measured with {high} drafts: at k = 1 expect AL - 1 up to {bias:.0f}% higher")
    if kind in BLOCK_KINDS:
        block = block_size or high + 1
        notes.append(
            f"block of {block}: verifying a prefix keeps these survivals; another block size is another drafter run and "
            "shifts them by an unpublished amount"
        )
    return tuple(notes)
