"""The posterior of a survival curve: the kind's usual run, moved to what was measured as far as counts allow.

The model is a_j = limit + (first - limit) * rate^(j-1) (``shape.py``) with two free numbers, x = logit(first) and
y = logit(limit). Before any data they follow the drafter kind: x the catalogue's level, y its usual run. Counts enter
as binomials, so few rounds leave the interval wide. Where counts are many, each position follows its own count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    rounds: float | None
    notes: tuple[str, ...]
    kind: str | None = None

    @property
    def mixture(self) -> EasyHard | None:
        """Easy and hard rounds behind conditionals that rise, None where they do not."""
        return fit_easy_hard(self.survival.s)

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

    notes = _notes(kind, high, by_position, block_size)
    gain = float(curve.acceptance_length(high)) - 1.0
    if not by_position and rounds is None:
        survival = replace(curve, s=curve.extended(max(k_max, curve.k_max)), notes=(*curve.notes, *notes))
        return AcceptanceFit(survival, usual.solve(1.0 + gain, high), None, notes, kind)
    counts = _counts(curve, high, rounds) if by_position else None
    gain_sd = 1.0 if rounds is None else _gain_sd(usual, level, gain, high, rounds)

    def prior(x: FloatArray) -> list[float]:
        usual_limit = x[0] if usual is FLAT else usual.intercept + SLOPE * x[0]
        drawn = [(x[1] - usual_limit) / usual.spread]
        return drawn if rounds is None else [*drawn, (x[0] - level) / level_sd]

    def of_length(x: FloatArray) -> FloatArray:
        return np.array([(float(shape_at(x).survival(high).sum()) - gain) / gain_sd, *prior(x)])

    def of_positions(x: FloatArray) -> FloatArray:
        assert counts is not None
        return np.concatenate(((shape_at(x).conditional(high) - counts.conditional) / scatter, prior(x)))

    def by_parameter(x: FloatArray) -> FloatArray:
        drawn = [[-(1.0 if usual is FLAT else SLOPE) / usual.spread, 1.0 / usual.spread], [1.0 / level_sd, 0.0]]
        return np.concatenate((shape_at(x).derivative(high) / scatter[:, None], drawn[: 1 if rounds is None else 2]))

    if counts is not None:
        at_risk = np.maximum(np.concatenate(([1.0], curve.s[: high - 1])), 1e-3)
        scatter = np.sqrt(SHAPE_ERROR**2 / at_risk + counts.noise)
    start = logit(float(np.clip(curve.s[0], 0.02, 0.98)))
    start_at = np.array([start, start if usual is FLAT else usual.intercept + SLOPE * start])
    fit = minimise(of_length, start_at) if counts is None else minimise(of_positions, start_at, by_parameter)
    shape = shape_at(fit.x)
    s, sigma = _blend(curve, shape, fit, rounds, counts, max(k_max, curve.k_max))
    seen = curve.counted if rounds is not None else None
    survival = Survival(
        s, sigma, curve.source, True, (low, high), notes=(*curve.notes, *notes), rounds=rounds, counted=seen
    )  # fmt: skip
    return AcceptanceFit(survival, shape, rounds, notes, kind)


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
    s = np.asarray(np.cumprod(a))
    if rounds is None:
        return s, curve.sigma
    gain = float(s[:high].sum())
    sampling = own[:high] ** 2 * counts.noise if counts is not None else np.zeros(high)
    later = np.array([s[j:high].sum() for j in range(high)]) / np.maximum(a[:high], 1e-9)
    gradient = ((1 - own[:high]) * later) @ shape.derivative(high)
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
