"""Drafters that look text up (n-gram, suffix): a chance of a match, and the acceptance given a match.

Engines print the list of rounds that drafted something; a load sees all rounds. With hit = share of rounds with a
match: s_j = hit * s_j(given a match), AL = 1 + hit * (AL given a match - 1).
"""

from __future__ import annotations

from dataclasses import replace

from specadvisor.acceptance.survival import Survival
from specadvisor.errors import InputError


def over_all_rounds(given_match: Survival, hit: float) -> Survival:
    """The curve over all rounds, from the one over rounds with a match and their share ``hit``."""
    _check(hit)
    return replace(given_match, s=given_match.s * hit, source=f"{given_match.source}; a match in {hit:.0%} of rounds")


def given_match(over_all: Survival, hit: float) -> Survival:
    """The curve over rounds with a match, from the one over all rounds and the share ``hit``."""
    _check(hit)
    if over_all.s[0] > hit * (1 + 1e-9):
        raise InputError(
            "share of rounds with a match", hit, f"at least s_1 = {over_all.s[0]:g}",
            "More rounds accept a draft than drafted one.",
        )  # fmt: skip
    return replace(over_all, s=over_all.s / hit, source=f"{over_all.source}; given a match")


def hit_share(rounds_with_draft: float, rounds: float) -> float:
    """Share of rounds that drafted something."""
    if not 0 < rounds_with_draft <= rounds:
        raise InputError("rounds with a draft", rounds_with_draft, f"above 0 and at most all {rounds:g} rounds")
    return rounds_with_draft / rounds


def _check(hit: float) -> None:
    if not 0 < hit <= 1:
        raise InputError("share of rounds with a match", hit, "a number above 0, at most 1")
