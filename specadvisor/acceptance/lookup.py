"""Drafters that look text up (n-gram, suffix): a chance of a match, and the acceptance given a match.

Engines print the list of rounds that drafted something; a load sees all rounds. With hit = share of rounds with a
match: s_j = hit * s_j(given a match), AL = 1 + hit * (AL given a match - 1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specadvisor.acceptance.convert import from_length
from specadvisor.acceptance.kinds import FAMILIES
from specadvisor.acceptance.survival import Survival
from specadvisor.errors import InputError

LOOKUPS = FAMILIES["lookup"]


def over_all_rounds(given_match: Survival, hit: float) -> Survival:
    """The curve over all rounds, from the one over rounds with a match and their share ``hit``.

    Where the rounds with a match were counted, so was the share: its own error, (1 - hit) / rounds in the logarithm
    squared, widens the interval.
    """
    _check(hit)
    n = given_match.rounds
    sigma = given_match.sigma if n is None else float(np.hypot(given_match.sigma, np.sqrt((1.0 - hit) / n)))
    counted = given_match.counted
    return replace(
        given_match, s=given_match.s * hit, sigma=sigma, hit=hit, rounds=None if n is None else n / hit,
        counted=None if counted is None else counted * hit, source=f"{given_match.source}; a match in {hit:.0%} of rounds",
    )  # fmt: skip


def given_match(over_all: Survival, hit: float | None = None) -> Survival:
    """The curve over rounds with a match, from the one over all rounds and the share ``hit`` (its own where it has one)."""
    hit = over_all.hit if hit is None else hit
    _check(hit)
    assert hit is not None
    if over_all.s[0] > hit * (1 + 1e-9):
        raise InputError(
            "share of rounds with a match", hit, f"at least s_1 = {over_all.s[0]:g}",
            "More rounds accept a draft than drafted one.",
        )  # fmt: skip
    n, counted = over_all.rounds, over_all.counted
    return replace(
        over_all, s=np.minimum(over_all.s / hit, 1.0), hit=None, rounds=None if n is None else max(n * hit, 1.0),
        counted=None if counted is None else np.minimum(counted / hit, 1.0), source=f"{over_all.source}; given a match",
    )  # fmt: skip


def from_hit(hit: float, length: float, k: int, *, kind: str | None = "ngram", k_max: int = 16) -> Survival:
    """From P(hit) and AL(k) given a match: after a match, positions share one conditional acceptance.

    Raises ``InputError``, also for a ``kind`` that drafts in every round.
    """
    _check(hit)
    check_lookup(kind)
    curve = from_length(length, k, k_max=k_max, source=f"acceptance length of {kind or 'a lookup'} given a match")
    return over_all_rounds(curve, hit)


def implied_hit(curve: Survival) -> float:
    """The share of rounds with a match that a curve of a lookup implies, if its own is not known.

    A match that holds goes on holding: position 1, given a match, is taken to accept like position 2, so
    hit = a_1 / a_2, at most 1.
    """
    if curve.hit is not None:
        return curve.hit
    first, second = (float(x) for x in (*curve.conditional[:2], curve.tail)[:2])
    return min(1.0, first / second) if second > 0 else 1.0


def check_lookup(kind: str | None) -> None:
    """Refuse a share of rounds with a match for a drafter that drafts in every round."""
    if kind is not None and kind not in LOOKUPS:
        raise InputError("share of rounds with a match", kind, f"a drafter that looks text up: {', '.join(LOOKUPS)}")


def hit_share(rounds_with_draft: float, rounds: float) -> float:
    """Share of rounds that drafted something."""
    if not 0 < rounds_with_draft <= rounds:
        raise InputError("rounds with a draft", rounds_with_draft, f"above 0 and at most all {rounds:g} rounds")
    return rounds_with_draft / rounds


def _check(hit: float | None) -> None:
    if hit is None or isinstance(hit, bool) or not 0 < hit <= 1:
        raise InputError("share of rounds with a match", hit, "a number above 0, at most 1")
