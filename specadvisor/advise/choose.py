"""Which k to run, from the predicted gains over plain decoding of one drafter at one load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specadvisor.ranges import FloatArray, Range

# Published ladders do not resolve optima closer than this (repeats of one arm differ by as much).
PLATEAU = 0.02
# Neighbouring loads share a k where it costs each of them at most this: less than the plateau, or k would not fall with load.
SHARED = 0.01
# The usual engine default: what stands where the acceptance is a catalogue value and nothing is clearly better.
USUAL_K = 3

BoolArray = NDArray[np.bool_]
Verdict = Literal["gain", "loss", "not distinguishable"]


@dataclass(frozen=True, slots=True)
class Choice:
    """``k``: the number of draft tokens to run (0 = do not speculate); ``gain`` its predicted speed-up (1 for k = 0).

    ``plateau``: every k, 0 included, within 2% of the best expected objective, ascending; ``cautious`` is its smallest.
    ``trial``: plain decoding is expected to be as good, but only a catalogue acceptance says so and a better one would pay.
    ``shares``: every k that a tier of several loads may run here instead, ``k`` itself included.
    """

    k: int
    gain: Range
    plateau: tuple[int, ...]
    verdict: Verdict
    trial: bool = False
    shares: tuple[int, ...] = ()

    @property
    def cautious(self) -> int:
        return self.plateau[0]


def choose_k(
    k: ArrayLike,
    gain: Range,
    *,
    acceptance_known: bool,
    plain: float = 1.0,
    favourable: ArrayLike | None = None,
    reach: int | None = None,
    doubt_beyond: bool = False,
) -> Choice:
    """The choice among ``k`` (1-D, each at least 1) and 0, for gains over k = 0 along the same axis.

    ``plain``: the gain of k = 0 itself, 1 unless plain decoding misses a stated limit (then 0). ``favourable``: the gains
    at the upper end of the acceptance alone (``Evaluation.favourable``), ``gain.high`` without it. ``reach``: the last
    position whose acceptance was measured (None: no such limit; of a catalogue value it counts with ``doubt_beyond`` only).

    The argmax of the expected objective, and 0 where that is in the plateau: a gain within the noise is not worth a drafter.
    A k beyond ``reach`` has to be more than the plateau better than those within; with ``doubt_beyond`` (how long a copied
    text goes on is not known) it has to be better than those and 0 at the low end of its interval. Acceptance from the
    catalogue only: the k of the plateau nearest to the usual 3 (of two the smaller), and 0 needs costs that lose even at the
    upper end of the acceptance; a catalogue value alone never says "off".
    """
    ks = np.asarray(k, dtype=int)
    mid = np.asarray(gain.mid, dtype=float)
    if doubt_beyond and reach is not None:
        sure = _sure(ks, mid, np.asarray(gain.low, dtype=float), reach, plain)
        ks, mid, gain = ks[sure], mid[sure], Range(*(np.asarray(v)[sure] for v in (gain.low, gain.mid, gain.high)))
        favourable = None if favourable is None else np.asarray(favourable)[sure]
    near = plateau(ks, mid, plain=plain)
    pays = float(np.max(gain.high if favourable is None else favourable)) > (1.0 + PLATEAU) * plain
    trial = near[0] == 0 and not acceptance_known and pays
    if near[0] == 0 and not trial:
        none = Range(plain, plain, plain)
        return Choice(0, none, near, verdict(none), shares=(0,))
    good = mid >= (1.0 - PLATEAU) * mid.max()
    if acceptance_known:
        measured = good & (ks <= (ks.max() if reach is None else reach))
        among = measured if measured.any() else good
        best = int(np.argmax(np.where(among, mid, -np.inf)))
        alike = among & (mid >= (1.0 - SHARED) * mid[best])
    else:
        best = int(np.argmin(np.where(good, np.abs(ks - USUAL_K), ks.max() + USUAL_K)))
        alike = _neighbours(good, best)
    return choice_at(int(ks[best]), ks, gain, near, trial, tuple(int(v) for v in ks[alike]))


def _sure(ks: FloatArray, mid: FloatArray, low: FloatArray, reach: int, plain: float) -> BoolArray:
    """Which k to choose among: those up to ``reach``, and those whose low end is better than any of them and than 0."""
    within = ks <= reach
    return np.asarray(within | (low > max(plain, mid[within].max()))) if within.any() else np.ones(ks.size, dtype=bool)


def _neighbours(good: BoolArray, at: int) -> BoolArray:
    """The part of ``good`` without a gap around position ``at``."""
    gaps = np.flatnonzero(~good)
    inside = np.arange(good.size)
    return (inside > max(gaps[gaps < at], default=-1)) & (inside < min(gaps[gaps > at], default=good.size))


def choice_at(
    k: int, ks: ArrayLike, gain: Range, near: tuple[int, ...], trial: bool = False, shares: tuple[int, ...] = ()
) -> Choice:
    """The choice of a given ``k`` of ``ks`` (at least 1) with its gain."""
    index = int(np.flatnonzero(np.asarray(ks, dtype=int) == k)[0])
    at = Range(*(float(np.asarray(v)[index]) for v in (gain.low, gain.mid, gain.high)))
    return Choice(k, at, near, verdict(at), trial, shares or (k,))


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
