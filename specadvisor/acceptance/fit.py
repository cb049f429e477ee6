"""Fit the acceptance model to whatever was measured, with posterior intervals from the counts.

The model is a_j = limit + (first - limit) * rate^(j-1) (``shape.py``) with two free numbers, x = logit(first) and
y = logit(limit). Before any data they follow the drafter kind: x the catalogue's level, y its usual run. Counts enter
as binomials, so few rounds leave the interval wide. Where counts are many, each position follows its own count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specadvisor.acceptance.convert import (
    LARGEST_K,
    counting_sigma,
    from_alpha,
    from_conditional,
    from_counts,
    from_cumulative,
    from_histogram,
    from_lengths,
    from_rate,
    from_steps,
)
from specadvisor.acceptance.easy_hard import fit_easy_hard
from specadvisor.acceptance.effects import bias_at
from specadvisor.acceptance.kinds import CLIFF, CLIFF_ONE_STEP
from specadvisor.acceptance.least_squares import Fit, minimise
from specadvisor.acceptance.priors import shipped_table
from specadvisor.acceptance.shape import FLAT, SLOPE, EasyHard, KindShape, Shape, kind_shape, logit, sigmoid
from specadvisor.acceptance.survival import Survival
from specadvisor.checks import positive, whole
from specadvisor.errors import InputError
from specadvisor.ids import resolve
from specadvisor.ranges import FloatArray, Range

# Conditionals of published lists scatter by about this much around the fitted shape (benchmarks/acceptance_model.py).
SHAPE_ERROR = 0.02
# Level before any data when the kind is not given: the catalogue's spread over all kinds.
_ANY_LEVEL, _ANY_LEVEL_SD = 0.7, 1.5
_BLOCK_KINDS = ("dflash", "dflash2", "domino", "dspark")


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


def fit_acceptance(
    *,
    conditional: Sequence[float] | None = None,
    cumulative: Sequence[float] | None = None,
    histogram: Sequence[float] | Mapping[int, float] | None = None,
    tokens_per_step: bool = False,
    lengths: Mapping[int, float] | None = None,
    rate: float | None = None,
    alpha: float | None = None,
    accepted: float | Sequence[float] | None = None,
    drafted: float | Sequence[float] | None = None,
    rounds: float | None = None,
    steps: Sequence[Sequence[int]] | Sequence[int] | None = None,
    k: int | None = None,
    kind: str | None = None,
    k_max: int = 16,
    block_size: int | None = None,
    trained_depth: int | None = None,
) -> AcceptanceFit:
    """Fit one measurement: exactly one of a list, a histogram, ``lengths`` ({k: AL}), a ``rate`` or counters with ``k``,
    ``alpha``, or ``steps`` (accepted drafts per round, one list per request).

    ``rounds`` beside a list or lengths says how many rounds are behind them. ``block_size``: tokens of the block at
    which a block drafter was measured, anchor included; its drafts are block_size - 1 whatever is verified.
    ``trained_depth``: positions beyond it fall off the cliff. Raises ``InputError``.
    """
    stated = {
        "conditional": conditional, "cumulative": cumulative, "histogram": histogram, "lengths": lengths, "rate": rate,
        "alpha": alpha, "accepted": accepted, "steps": steps,
    }  # fmt: skip
    given = [name for name, value in stated.items() if value is not None]
    if len(given) != 1:
        raise InputError("acceptance", given, f"exactly one of {', '.join(stated)}")
    for name, wanted in (("histogram", Collection), ("steps", Collection), ("lengths", Mapping)):
        if stated[name] is not None and not isinstance(stated[name], wanted):
            raise InputError(name, stated[name], "{k: AL} pairs" if wanted is Mapping else "a list")
    kind = None if kind is None else resolve("drafter", kind)
    usual = kind_shape(kind)
    k_max = whole("k_max", k_max, 1, LARGEST_K)
    if trained_depth is not None:
        trained_depth = whole("trained_depth", trained_depth, 1, LARGEST_K)
        usual = replace(usual, depth=trained_depth, cliff=CLIFF_ONE_STEP if trained_depth == 1 else CLIFF)
    rounds = None if rounds is None else positive("rounds", rounds)
    block_size = None if block_size is None else whole("block_size", block_size, 1, LARGEST_K + 1)

    if conditional is not None:
        curve = from_conditional(conditional)
    elif cumulative is not None:
        curve = from_cumulative(cumulative)
    elif histogram is not None:
        curve = from_histogram(histogram, tokens_per_step=tokens_per_step)
        rounds = float(sum(histogram.values() if isinstance(histogram, Mapping) else histogram))
    elif steps is not None:
        curve = from_steps(steps, _needed(k, "steps"))
        rounds = float(sum(np.size(part) for part in steps))
    elif lengths is not None:
        curve = from_lengths(lengths, kind=kind, k_max=k_max)
    elif rate is not None:
        curve = from_rate(rate, _needed(k, "rate"), kind=kind, k_max=k_max)
    elif alpha is not None:
        curve = from_alpha(alpha, k_max)
    else:
        if drafted is None or accepted is None:
            raise InputError("counters", accepted, "accepted together with drafted")
        curve = from_counts(accepted, drafted, rounds=rounds, k=k, kind=kind, k_max=k_max)
        if np.isscalar(accepted):
            n_k = curve.measured[1] if curve.measured else 1
            rounds = rounds if rounds is not None else float(np.asarray(drafted)) / n_k
        else:
            rounds = float(np.min(drafted))
    return fit_curve(curve, usual, kind, rounds, k_max, block_size)


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
    by_position = low == 1 and high > 1
    level, level_sd = _ANY_LEVEL, _ANY_LEVEL_SD
    if kind is not None:
        cell = shipped_table().cells[kind, "mixed"]
        level, level_sd = cell.level, cell.level_sd

    def shape_at(x: FloatArray) -> Shape:
        return Shape(sigmoid(x[0]), sigmoid(x[1]), usual.rate, usual.depth, usual.cliff)

    def residuals(x: FloatArray) -> FloatArray:
        shape = shape_at(x)
        usual_limit = x[0] if usual is FLAT else usual.intercept + SLOPE * x[0]
        prior = [(x[1] - usual_limit) / usual.spread]
        if rounds is not None:
            prior.append((x[0] - level) / level_sd)
        if not by_position:
            gain = float(curve.acceptance_length(high)) - 1.0
            sd = gain * (counting_sigma(curve, high, rounds) if rounds is not None else 1e-3) + 1e-6
            return np.array([(float(shape.survival(high).sum()) - gain) / sd, *prior])
        at_risk = np.concatenate(([1.0], curve.s[: high - 1]))
        a = curve.conditional[:high]
        model = np.clip(shape.conditional(high), 1e-9, 1 - 1e-9)
        noise = SHAPE_ERROR**2 / np.maximum(at_risk, 1e-3)
        if rounds is not None:
            noise = noise + model * (1 - model) / np.maximum(rounds * at_risk, 0.3)
        return np.concatenate(((model - a) / np.sqrt(noise), prior))

    start = logit(float(np.clip(curve.s[0], 0.02, 0.98)))
    fit = minimise(residuals, np.array([start, start if usual is FLAT else usual.intercept + SLOPE * start]))
    shape = shape_at(fit.x)
    s, sigma = _blend(curve, shape, shape_at, fit, rounds, by_position, max(k_max, curve.k_max))
    notes = _notes(kind, high, by_position, block_size)
    survival = Survival(s, sigma, curve.source, True, (low, high), notes=(*curve.notes, *notes))
    return AcceptanceFit(survival, shape, fit_easy_hard(survival.s), float(np.sqrt(fit.covariance[0, 0])), rounds, notes)


def _blend(
    curve: Survival,
    shape: Shape,
    shape_at: Callable[[FloatArray], Shape],
    fit: Fit,
    rounds: float | None,
    by_position: bool,
    k_max: int,
) -> tuple[FloatArray, float]:
    """Survival and the log standard deviation of AL - 1: measured positions drawn to the shape as counts allow."""
    high = curve.measured[1] if curve.measured else curve.k_max
    a = shape.conditional(k_max)
    own = np.zeros(k_max)
    if by_position:
        at_risk = np.concatenate(([1.0], curve.s[: high - 1]))
        seen = rounds * at_risk if rounds is not None else np.full(high, np.inf)
        # The shape is worth as many rounds as its own scatter: a binomial of that variance.
        worth = np.maximum(a[:high] * (1 - a[:high]), 1e-3) / SHAPE_ERROR**2
        share = np.divide(seen, seen + worth, out=np.ones(high), where=np.isfinite(seen))
        own[:high] = share
        a[:high] = share * curve.conditional[:high] + (1 - share) * a[:high]
        s = np.asarray(np.cumprod(a))
    elif rounds is None:
        return curve.extended(k_max), curve.sigma
    else:
        s = np.asarray(np.cumprod(a))
    if rounds is None:
        return s, curve.sigma
    gain = float(s[:high].sum())
    survivors = np.concatenate(([1.0], s[: high - 1]))
    sampling = own[:high] ** 2 * a[:high] * (1 - a[:high]) / np.maximum(rounds * survivors, 0.3)
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
    if kind in _BLOCK_KINDS:
        block = block_size or high + 1
        notes.append(
            f"block of {block}: verifying a prefix keeps these survivals; another block size is another drafter run and "
            "shifts them by an unpublished amount"
        )
    return tuple(notes)


def _needed(k: int | None, what: str) -> int:
    if k is None:
        raise InputError("k", None, f"the number of draft tokens the {what} was measured at")
    return k


def summary(fit: AcceptanceFit, ks: Sequence[int] = (1, 2, 3, 5, 7)) -> list[dict[str, float]]:
    """AL and its interval at some k, for tables."""
    table = []
    for k in ks:
        interval = fit.interval(k)
        table.append({"k": k, "low": float(interval.low), "mid": float(interval.mid), "high": float(interval.high)})
    return table
