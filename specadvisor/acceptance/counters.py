"""Survival curves out of an engine's counters of drafted and accepted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specadvisor.acceptance.convert import counted, counting_sigma, draft_tokens, finite, from_length
from specadvisor.acceptance.survival import Survival
from specadvisor.checks import whole
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

# drafted = k * rounds, as far as counters read a moment apart agree.
_AGREE = 0.02


def from_counts(
    accepted: float | Sequence[float], drafted: float | Sequence[float], *, rounds: float | None = None, k: int | None = None,
    kind: str | None = None, k_max: int = 16, source: str = "counters",
) -> Survival:  # fmt: skip
    """From counters of accepted and drafted tokens, one of each per position or totals.

    ``drafted[j]`` is the number of rounds that drafted position j. A total is drafted = k * rounds: ``k`` or ``rounds``
    gives the other. One number beside a list of accepted is read as that total with ``k``, and as the number of rounds
    where it is too small for a total; where it could be either, it is refused. Raises ``InputError``.
    """
    n = None if rounds is None else at_least_one("rounds", rounds)
    k = None if k is None else draft_tokens(k)
    got, asked = finite("accepted", accepted), finite("drafted", drafted)
    stated = {"accepted": got.tolist(), "drafted": asked.tolist()}
    if np.any(asked <= 0) or np.any(got < 0):
        raise InputError("counters", stated, "0 <= accepted <= drafted > 0")
    if np.ndim(accepted) > 0:
        return _by_position(got, _rounds_by_position(got, asked, n, k, stated), n, source)
    if np.ndim(drafted) > 0 or got[0] > asked[0]:
        raise InputError("counters", stated, "0 <= accepted <= drafted > 0, a list beside a list")
    n, k = _rounds_of_total(float(asked[0]), n, k)
    curve = from_length(1.0 + float(got[0]) / n, k, kind=kind, k_max=k_max, source=source)
    return replace(curve, sigma=counting_sigma(curve, k, n), rounds=n, counted=curve.s[:k])


def at_least_one(field: str, rounds: float) -> float:
    """``rounds`` as a float of at least 1; raises ``InputError``."""
    try:
        number = float(rounds)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if isinstance(rounds, bool) or not 1 - 1e-6 <= number <= 1e15:
        raise InputError(field, rounds, "a number of rounds, at least 1")
    return number


def _rounds_of_total(drafted: float, rounds: float | None, k: int | None) -> tuple[float, int]:
    """(rounds, k) with drafted = k * rounds."""
    if k is None and rounds is None:
        raise InputError("drafted", drafted, "k or the number of rounds beside a total of drafted tokens")
    if k is None:
        assert rounds is not None
        k = whole("drafted over rounds (draft tokens)", max(1, round(drafted / rounds)), 1, 1024)
    if rounds is None:
        return at_least_one("drafted over k (rounds)", drafted / k), k
    if abs(drafted / (k * rounds) - 1.0) > _AGREE and k * rounds < drafted:
        raise InputError(
            "drafted", drafted, f"at most k * rounds = {k * rounds:g}", f"{rounds:g} rounds draft {k} tokens each."
        )
    return rounds, k


def _rounds_by_position(
    got: FloatArray, asked: FloatArray, rounds: float | None, k: int | None, stated: dict[str, list[float]]
) -> FloatArray:
    """Rounds that drafted each position."""
    if asked.size > 1:
        if asked.size != got.size:
            raise InputError("counters", stated, f"as many drafted as accepted positions ({got.size})")
        if k is not None and k < got.size:
            raise InputError("k", k, f"at least the {got.size} positions that are listed")
        return asked
    total, n = float(asked[0]), got.size
    if k is not None:
        if k < n:
            raise InputError("k", k, f"at least the {n} positions that are listed")
        return np.full(n, _rounds_of_total(total, rounds, k)[0])
    if n == 1 or got[0] > total / n * (1 + _AGREE) or (rounds is not None and abs(total / rounds - 1.0) <= _AGREE):
        return np.full(n, total)
    if rounds is not None:
        return np.full(n, _rounds_of_total(total, rounds, n)[0])
    raise InputError(
        "drafted", total, "one count per position, or a total together with k",
        f"It may be the total of {n} positions ({total / n:g} rounds) or the number of rounds.",
    )  # fmt: skip


def _by_position(got: FloatArray, rounds: FloatArray, stated: float | None, source: str) -> Survival:
    if np.any(got > rounds * (1 + 1e-9)):
        j = int(np.argmax(got > rounds * (1 + 1e-9)))
        raise InputError(
            f"accepted at position {j + 1}", got[j], f"at most the {rounds[j]:g} rounds that drafted it",
            "drafted counts all positions together where one number is given with k: give a list, or no k.",
        )  # fmt: skip
    if stated is not None and rounds.max() > stated * (1 + _AGREE):
        raise InputError("rounds", stated, f"at least the {rounds.max():g} rounds that drafted position 1")
    return counted(np.minimum(got / rounds, 1.0), at_least_one("drafted (rounds)", float(rounds.min())), source)
