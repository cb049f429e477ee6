"""Which k to run, from the predicted gains over plain decoding of one drafter at one load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.ranges import FloatArray, Range

PLATEAU = 0.02
# Published ladders do not resolve optima closer than this (repeats of one arm differ by as much).
NOISE = 0.03
# The usual engine default, and the policy that an answer without measured acceptance must not do worse than.
USUAL_K = 3

Verdict = Literal["gain", "loss", "not distinguishable"]


@dataclass(frozen=True, slots=True)
class Choice:
    """``k``: the number of draft tokens to run (0 = do not speculate); ``gain`` its predicted speed-up (1 for k = 0).

    ``plateau``: every k, 0 included, within 2% of the best expected objective, ascending; ``cautious`` is its smallest.
    """

    k: int
    gain: Range
    plateau: tuple[int, ...]
    verdict: Verdict

    @property
    def cautious(self) -> int:
        return self.plateau[0]


def choose_k(
    k: ArrayLike, gain: Range, *, acceptance_known: bool, plain: float = 1.0, favourable: ArrayLike | None = None
) -> Choice:
    """The choice among ``k`` (1-D, each at least 1) and 0, for gains over k = 0 along the same axis.

    ``plain``: the gain of k = 0 itself, 1 unless plain decoding misses a stated limit (then 0). ``favourable``: the gains
    at the upper end of the acceptance alone (``Evaluation.favourable``), ``gain.high`` without it.

    Acceptance known: the argmax of the expected objective, 0 included. Acceptance from the catalogue only: a catalogue
    value never says "off" by itself, so 0 is chosen only where the costs lose even at favourable acceptance; else the
    usual k (nearest to 3) stands unless another k beats it by more than the noise.
    """
    ks = np.asarray(k, dtype=int)
    mid = np.asarray(gain.mid, dtype=float)
    best = int(np.argmax(mid))
    if acceptance_known:
        index = best if mid[best] > plain else None
    elif np.all(np.asarray(gain.high if favourable is None else favourable) < plain):
        index = None
    else:
        usual = int(np.argmin(np.abs(ks - USUAL_K)))
        index = best if mid[best] > mid[usual] * (1.0 + NOISE) else usual
    chosen = 0 if index is None else int(ks[index])
    bounds = (
        (plain, plain, plain) if index is None else tuple(float(np.asarray(v)[index]) for v in (gain.low, gain.mid, gain.high))
    )
    at = Range(*bounds)
    return Choice(chosen, at, plateau(ks, mid, plain=plain), verdict(at))


def plateau(k: ArrayLike, gain: ArrayLike, width: float = PLATEAU, plain: float = 1.0) -> tuple[int, ...]:
    """Every k (0 with gain ``plain`` included) whose gain is within ``width`` of the best, ascending."""
    ks = np.concatenate(([0], np.asarray(k, dtype=int)))
    gains: FloatArray = np.concatenate(([plain], np.asarray(gain, dtype=float)))
    return tuple(sorted(int(v) for v in ks[gains >= (1.0 - width) * gains.max()]))


def verdict(gain: Range) -> Verdict:
    """A win or a loss only where the whole 80% interval lies on one side of 1."""
    if gain.low > 1.0:
        return "gain"
    return "loss" if gain.high < 1.0 else "not distinguishable"
