"""Which k to run, from the predicted gains over plain decoding of one drafter at one load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.ranges import FloatArray, Range

# Published ladders do not resolve optima closer than this (repeats of one arm differ by as much).
PLATEAU = 0.02
# The usual engine default: what stands where the acceptance is a catalogue value and nothing is clearly better.
USUAL_K = 3

Verdict = Literal["gain", "loss", "not distinguishable"]


@dataclass(frozen=True, slots=True)
class Choice:
    """``k``: the number of draft tokens to run (0 = do not speculate); ``gain`` its predicted speed-up (1 for k = 0).

    ``plateau``: every k, 0 included, within 2% of the best expected objective, ascending; ``cautious`` is its smallest.
    ``hopeful``: k is 0, but acceptance at the upper end of its interval would pay.
    """

    k: int
    gain: Range
    plateau: tuple[int, ...]
    verdict: Verdict
    hopeful: bool = False

    @property
    def cautious(self) -> int:
        return self.plateau[0]


def choose_k(
    k: ArrayLike, gain: Range, *, acceptance_known: bool, plain: float = 1.0, favourable: ArrayLike | None = None
) -> Choice:
    """The choice among ``k`` (1-D, each at least 1) and 0, for gains over k = 0 along the same axis.

    ``plain``: the gain of k = 0 itself, 1 unless plain decoding misses a stated limit (then 0). ``favourable``: the gains
    at the upper end of the acceptance alone (``Evaluation.favourable``), ``gain.high`` without it.

    The argmax of the expected objective, and 0 where that is in the plateau: a gain within the noise is not worth a drafter.
    Acceptance from the catalogue only: the usual k (nearest to 3) stands where it is in the plateau.
    """
    ks = np.asarray(k, dtype=int)
    mid = np.asarray(gain.mid, dtype=float)
    near = plateau(ks, mid, plain=plain)
    good = float(np.max(gain.high if favourable is None else favourable))
    if near[0] == 0:
        none = Range(plain, plain, plain)
        return Choice(0, none, near, verdict(none), good > (1.0 + PLATEAU) * plain)
    usual = int(ks[np.argmin(np.abs(ks - USUAL_K))])
    chosen = usual if not acceptance_known and usual in near else int(ks[np.argmax(mid)])
    return choice_at(chosen, ks, gain, near)


def choice_at(k: int, ks: ArrayLike, gain: Range, near: tuple[int, ...]) -> Choice:
    """The choice of a given ``k`` of ``ks`` (at least 1) with its gain."""
    index = int(np.flatnonzero(np.asarray(ks, dtype=int) == k)[0])
    at = Range(*(float(np.asarray(v)[index]) for v in (gain.low, gain.mid, gain.high)))
    return Choice(k, at, near, verdict(at))


def plateau(k: ArrayLike, gain: ArrayLike, width: float = PLATEAU, plain: float = 1.0) -> tuple[int, ...]:
    """Every k (0 with gain ``plain`` included) whose gain is within ``width`` of the best, ascending (0 where all are 0)."""
    ks = np.concatenate(([0], np.asarray(k, dtype=int)))
    gains: FloatArray = np.concatenate(([plain], np.asarray(gain, dtype=float)))
    if gains.max() <= 0.0:
        return (0,)
    return tuple(sorted(int(v) for v in ks[gains >= (1.0 - width) * gains.max()]))


def verdict(gain: Range) -> Verdict:
    """A win or a loss only where the whole 80% interval lies on one side of 1."""
    if gain.low > 1.0:
        return "gain"
    return "loss" if gain.high < 1.0 else "not distinguishable"
