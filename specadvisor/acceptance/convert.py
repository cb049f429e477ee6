"""Survival curves out of whatever a user has: lists, histograms, lengths, rates, one alpha (counters: ``counters``).

AL counts the bonus token, AL(k) = 1 + s_1 + ... + s_k; the rate is accepted over drafted tokens, (AL - 1) / k.
Every constructor reproduces its input exactly. Definitions: vLLM ``1 + accepted / drafts``, SPEED-Bench equation 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specadvisor.acceptance.shape import FLAT, bisect, kind_shape, sigmoid
from specadvisor.acceptance.survival import Survival
from specadvisor.checks import whole
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

# A number typed in by the user carries no counts: the traffic behind it still differs a little from tomorrow's.
SIGMA_STATED = 0.05
LARGEST_K = 1024
MOST_ROUNDS = 1e15
_SLACK = 1e-6


def from_cumulative(values: Sequence[float], *, source: str = "cumulative list", sigma: float = SIGMA_STATED) -> Survival:
    """From s_1, s_2, ...: the share of rounds whose first j drafts were all accepted (vLLM's per-position rate)."""
    s = _probabilities("cumulative acceptance", values)
    return Survival(s, sigma, source, known=True, measured=(1, s.size))


def from_conditional(values: Sequence[float], *, source: str = "conditional list", sigma: float = SIGMA_STATED) -> Survival:
    """From a_1, a_2, ...: acceptance of position j given that positions before it were accepted."""
    a = _probabilities("conditional acceptance", values)
    return Survival(np.asarray(np.cumprod(a)), sigma, source, known=True, measured=(1, a.size))


def from_alpha(alpha: float, k_max: int = 16, *, source: str = "one alpha", sigma: float = 0.10) -> Survival:
    """One acceptance probability for every position (Leviathan et al. 2023): s_j = alpha^j."""
    value = float(_probabilities("alpha", [alpha])[0])
    return Survival(np.asarray(value ** np.arange(1, k_max + 1)), sigma, source, known=True, measured=(1, 1))


def from_length(
    length: float, k: int, *, kind: str | None = None, k_max: int = 16, source: str = "acceptance length",
    sigma: float = SIGMA_STATED,
) -> Survival:  # fmt: skip
    """From AL measured at one k: the kind's usual shape, shifted until AL(k) is ``length``; flat without a kind."""
    k = draft_tokens(k)
    length = check_length(length, k)
    shape = kind_shape(kind)
    s = _exact_length(shape.solve(length, k).survival(max(k_max, k)), length, k)
    run = "share one conditional acceptance" if shape is FLAT else f"follow the usual run of {shape.kind} drafters"
    note = f"positions {run} through AL({k}) = {length:g}"
    return Survival(s, sigma, source, known=True, measured=(k, k), notes=(note,))


def from_lengths(
    lengths: Mapping[int, float], *, kind: str | None = None, k_max: int = 16, source: str = "acceptance lengths",
    sigma: float = SIGMA_STATED,
) -> Survival:  # fmt: skip
    """From AL at several k: between two of them conditionals are flat, before and after them the kind's shape is used."""
    if not lengths:
        raise InputError("acceptance lengths", dict(lengths), "at least one k: length pair")
    lengths = {draft_tokens(k): length for k, length in lengths.items()}
    ks = sorted(lengths)
    if len(ks) == 1:
        return from_length(lengths[ks[0]], ks[0], kind=kind, k_max=k_max, source=source, sigma=sigma)
    check_lengths(lengths)
    gains = [lengths[k] - before for k, before in zip(ks, [1.0, *(lengths[k] for k in ks)], strict=False)]
    widths = [k - before for k, before in zip(ks, [0, *ks], strict=False)]
    means = [gain / width for gain, width in zip(gains, widths, strict=True)]
    s = from_length(lengths[ks[0]], ks[0], kind=kind, k_max=ks[0]).s
    if s[-1] < means[1]:
        s = _ramp(1.0, means[0], means[1], ks[0])
    for i in range(1, len(ks)):
        s = np.concatenate((s, _segment(float(s[-1]), means[i], means[i + 1] if i + 1 < len(ks) else 0.0, widths[i])))
    tail = kind_shape(kind).solve(lengths[ks[-1]], ks[-1]).conditional(max(k_max, ks[-1] + 1))[ks[-1] :]
    s = np.concatenate((s, s[-1] * np.cumprod(tail)))[: max(k_max, ks[-1])]
    return Survival(s, sigma, source, known=True, measured=(ks[0], ks[-1]))


def from_rate(rate: float, k: int, *, kind: str | None = None, k_max: int = 16, source: str = "acceptance rate") -> Survival:
    """From accepted over drafted tokens at one k: AL = 1 + k * rate."""
    value = float(_probabilities("acceptance rate", [rate])[0])
    return from_length(1.0 + draft_tokens(k) * value, k, kind=kind, k_max=k_max, source=source)


def from_histogram(
    counts: Sequence[float] | Mapping[int, float], *, tokens_per_step: bool = False, source: str = "histogram"
) -> Survival:
    """From the number of rounds that accepted j drafts, j = 0, 1, ...

    ``tokens_per_step``: the keys count emitted tokens instead (1 = nothing accepted), as SPEED-Bench's harness does.
    """
    table = dict(counts) if isinstance(counts, Mapping) else dict(enumerate(counts, start=int(tokens_per_step)))
    offset = int(tokens_per_step)
    keys = [whole("histogram (drafts accepted)", j, 0, LARGEST_K + 1) - offset for j in table]
    rounds = dict(zip(keys, finite("histogram", list(table.values())).tolist(), strict=True))
    total = sum(rounds.values())
    if min(rounds) < 0 or min(rounds.values()) < 0 or not 1 - _SLACK <= total <= MOST_ROUNDS:
        raise InputError(
            "histogram", table, "counts of rounds by accepted drafts from 0 (by tokens per step from 1), at least one round "
            f"and at most {MOST_ROUNDS:g}",
        )  # fmt: skip
    k = max(1, max(rounds))
    at_least = np.cumsum([rounds.get(j, 0.0) for j in range(k, -1, -1)])[::-1]
    return counted(at_least[1:] / total, total, source)


def from_steps(accepted: Sequence[Sequence[int]] | Sequence[int], k: int, *, source: str = "step list") -> Survival:
    """From the accepted drafts of every round (one list, or one list per request), all with ``k`` drafted."""
    k = draft_tokens(k)
    flat = np.concatenate([np.empty(0), *(finite("accepted drafts per round", part) for part in accepted if np.size(part))])
    if not flat.size or flat.min() < 0 or flat.max() > k or np.any(flat != np.floor(flat)):
        raise InputError(
            "accepted drafts per round", flat.tolist()[:20], f"whole numbers from 0 to k = {k}, at least one round"
        )
    return from_histogram(np.bincount(flat.astype(int), minlength=k + 1).tolist(), source=source)


def counting_sigma(curve: Survival, k: int, rounds: float) -> float:
    """Log standard deviation of AL - 1 after ``rounds`` independent rounds: sd(A) / sqrt(rounds) / mean(A)."""
    gain = float(curve.acceptance_length(k)) - 1.0
    variance = max(curve.length_variance(k), 0.0) + 1.0 / (rounds + 1.0)
    return min(1.5, float(np.sqrt(variance / rounds)) / max(gain, 0.5 / rounds))


def counted(s: FloatArray, rounds: float, source: str) -> Survival:
    """The curve of shares ``s`` counted in ``rounds`` rounds."""
    curve = Survival(s, 0.0, source, True, (1, s.size), rounds=rounds, counted=s)
    return replace(curve, sigma=counting_sigma(curve, s.size, rounds))


def to_histogram(curve: Survival, k: int, rounds: float = 1.0) -> dict[int, float]:
    """Rounds by accepted drafts 0..k; ``from_histogram`` reads it back."""
    return {j: float(p * rounds) for j, p in enumerate(curve.length_pmf(k))}


def check_length(length: float, k: int) -> float:
    """``length`` if it is a possible AL(k), else the reason why not."""
    length = float(finite("acceptance length", length)[0])
    if length < 1 - _SLACK:
        raise InputError("acceptance length", length, "at least 1: the bonus token is counted", "Add 1 if yours excludes it.")
    if length > k + 1 + _SLACK:
        raise InputError(
            "acceptance length", length, f"at most k + 1 = {k + 1}",
            f"A chain of {k} drafts emits at most {k + 1} tokens a round: either k is larger or the number counts a tree.",
        )  # fmt: skip
    return min(max(length, 1.0), k + 1.0)


def check_lengths(lengths: Mapping[int, float]) -> None:
    """Refuse lengths that no survival curve has: above k + 1, falling with k, or rising faster than before."""
    previous_k, previous, slope = 0, 1.0, 1.0
    for k in sorted(lengths):
        length = check_length(lengths[k], k)
        gain = (length - previous) / (k - previous_k)
        if gain < -_SLACK or gain > slope + _SLACK:
            reason = "falls" if gain < 0 else "rises faster than before it"
            raise InputError(
                "acceptance lengths", dict(lengths), "lengths that rise with k by less and less",
                f"AL {reason} at k = {k}: these cannot come from one drafter on one load; give the one that fits your load.",
            )  # fmt: skip
        previous_k, previous, slope = k, length, gain


def _segment(before: float, mean: float, after: float, n: int) -> FloatArray:
    """``n`` survivals with that mean, none above ``before`` and none below ``after``: flat conditionals if possible."""
    powers = np.arange(1, n + 1)
    if before > 0:
        ratio = sigmoid(bisect(lambda x: before * float(np.mean(sigmoid(x) ** powers)), mean))
        s = _exact_length(np.asarray(before * ratio**powers), 1.0 + n * mean, n)
        if s[0] <= before and s[-1] >= after:
            return s
    return _ramp(before, mean, after, n)


def _ramp(before: float, mean: float, after: float, n: int) -> FloatArray:
    """``n`` survivals falling evenly around ``mean``, as steeply as ``before`` and ``after`` leave room for."""
    room = min(before - mean, mean - after)
    return mean + room * np.linspace(1.0, -1.0, n) if n > 1 else np.array([mean])


def _exact_length(s: FloatArray, length: float, k: int) -> FloatArray:
    """The curve with its rounding error in AL(k) removed, so that a length comes back as it was given."""
    gain, want = float(s[:k].sum()), length - 1.0
    if want >= k:
        return np.concatenate((np.ones(k), s[k:]))
    if want <= 0 or gain <= 0:
        return np.zeros_like(s)
    # Scale the smaller of what is accepted and what is not: neither can leave [0, 1] by more than rounding.
    exact = s * (want / gain) if 2 * gain < k else 1.0 - (1.0 - s) * ((k - want) / (k - gain))
    return np.clip(exact, 0.0, 1.0)


def draft_tokens(k: Any) -> int:
    """``k`` as a number of draft tokens; raises ``InputError``."""
    return whole("k (draft tokens)", k, 1, LARGEST_K)


def finite(field: str, values: Any) -> FloatArray:
    """``values`` as finite numbers, at least one; raises ``InputError``."""
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:
        raise InputError(field, values, "numbers") from None
    if not array.size or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise InputError(field, values, "finite numbers, at least one")
    return array.astype(float)


def _probabilities(field: str, values: Sequence[float]) -> FloatArray:
    array = finite(field, values)
    if array.ndim != 1:
        raise InputError(field, values, "a list of numbers between 0 and 1")
    if array.min() < 0 or array.max() > 1:
        percent = 1 < array.max() <= 100 and array.min() >= 0
        raise InputError(field, array.tolist(), "numbers between 0 and 1", "Divide percentages by 100." if percent else "")
    return array
