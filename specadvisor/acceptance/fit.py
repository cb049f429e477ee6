"""``fit_acceptance``: the acceptance model fitted to whatever was measured (the model itself: ``posterior.py``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from specadvisor.acceptance.convert import (
    LARGEST_K,
    from_alpha,
    from_conditional,
    from_cumulative,
    from_histogram,
    from_lengths,
    from_rate,
    from_steps,
)
from specadvisor.acceptance.counters import at_least_one, from_counts
from specadvisor.acceptance.kinds import CLIFF, CLIFF_ONE_STEP
from specadvisor.acceptance.lookup import check_lookup, over_all_rounds
from specadvisor.acceptance.posterior import BLOCK_KINDS, AcceptanceFit, fit_curve
from specadvisor.acceptance.shape import kind_shape
from specadvisor.acceptance.survival import Survival
from specadvisor.checks import whole
from specadvisor.errors import InputError
from specadvisor.ids import resolve

# Parallel drafters whose block is its drafts and the anchor; DSpark predicts at the anchor, too.
_PREDICTS_AT_ANCHOR = ("dspark",)


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
    hit: float | None = None,
) -> AcceptanceFit:
    """Fit one measurement: exactly one of a list, a histogram, ``lengths`` ({k: AL}), a ``rate`` or counters with ``k``,
    ``alpha``, or ``steps`` (accepted drafts per round, one list per request).

    ``rounds`` beside a list or lengths says how many rounds are behind them; ``k`` how many drafts they were measured with.
    ``block_size``: tokens of the block at which a block drafter was measured, anchor included; its drafts are
    block_size - 1 whatever is verified. ``trained_depth``: positions beyond it fall off the cliff. ``hit``: share of rounds
    in which a text lookup found a match, where the measurement is of those rounds alone. Raises ``InputError``.
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
    if drafted is not None and accepted is None:
        raise InputError("drafted", drafted, "drafted together with accepted")
    kind = None if kind is None else resolve("drafter", kind)
    own = kind if hit is None else None  # a look-up's usual run starts with its chance of a match
    usual = kind_shape(own)
    k_max = whole("k_max", k_max, 1, LARGEST_K)
    k = None if k is None else whole("k (draft tokens)", k, 1, LARGEST_K)
    if trained_depth is not None:
        trained_depth = whole("trained_depth", trained_depth, 1, LARGEST_K)
        usual = replace(usual, depth=trained_depth, cliff=CLIFF_ONE_STEP if trained_depth == 1 else CLIFF)
    rounds = None if rounds is None else at_least_one("rounds", rounds)
    if hit is not None:
        check_lookup(kind)

    if conditional is not None:
        curve = from_conditional(conditional)
    elif cumulative is not None:
        curve = from_cumulative(cumulative)
    elif histogram is not None:
        curve = _agreeing(from_histogram(histogram, tokens_per_step=tokens_per_step), rounds, "histogram")
    elif steps is not None:
        curve = _agreeing(from_steps(steps, _needed(k, "steps")), rounds, "steps")
    elif lengths is not None:
        curve = from_lengths(lengths, kind=own, k_max=k_max)
    elif rate is not None:
        curve = from_rate(rate, _needed(k, "rate"), kind=own, k_max=k_max)
    elif alpha is not None:
        curve = from_alpha(alpha, k_max)
    else:
        if drafted is None or accepted is None:
            raise InputError("counters", accepted, "accepted together with drafted")
        curve = from_counts(accepted, drafted, rounds=rounds, k=k, kind=own, k_max=k_max)
    high = curve.measured[1] if curve.measured else 1
    if k is not None and alpha is None and high > k:
        raise InputError("k (draft tokens)", k, f"at least the {high} drafts that {given[0]} covers")
    if block_size is not None:
        block_size = _block(block_size, kind, high)
    if curve.rounds is None and rounds is not None:
        curve = replace(curve, rounds=rounds, counted=curve.s[:high])
    fit = fit_curve(curve, usual, own, curve.rounds, k_max, block_size)
    return fit if hit is None else replace(fit, survival=over_all_rounds(fit.survival, hit), kind=kind)


def _agreeing(curve: Survival, rounds: float | None, what: str) -> Survival:
    assert curve.rounds is not None
    if rounds is not None and abs(rounds / curve.rounds - 1.0) > 1e-6:
        raise InputError("rounds", rounds, f"the {curve.rounds:g} rounds of the {what}, or none")
    return curve


def _block(block_size: int, kind: str | None, high: int) -> int:
    """``block_size`` if a block of it can hold ``high`` drafts."""
    block_size = whole("block_size", block_size, 2, LARGEST_K + 1)
    if kind is not None and kind not in BLOCK_KINDS:
        raise InputError("block_size", block_size, f"none: {kind} predicts no block ({', '.join(BLOCK_KINDS)} do)")
    drafts = block_size if kind in _PREDICTS_AT_ANCHOR else block_size - 1
    if high > drafts:
        raise InputError("block_size", block_size, f"at least {high + block_size - drafts}: {high} drafts were measured")
    return block_size


def _needed(k: int | None, what: str) -> int:
    if k is None:
        raise InputError("k", None, f"the number of draft tokens the {what} was measured at")
    return k
