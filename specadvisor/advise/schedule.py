"""Number of draft tokens by load: contiguous ranges of concurrency, and the load from which speculation does not pay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specadvisor.advise.choose import Choice
from specadvisor.advise.recommendation import Schedule, Tier
from specadvisor.ranges import FloatArray, Range

# Loads share a tier while one k stays this close to each load's choice: published ladders do not resolve less.
KEEP_WITHIN = 0.01
POINTS_PER_OCTAVE = 4


def schedule_loads(largest: int, stated: Sequence[int] = ()) -> tuple[int, ...]:
    """Loads at which the schedule is decided: 1 to ``largest`` in quarter octaves, and every stated load."""
    octaves = np.log2(max(largest, 1))
    grid = np.exp2(np.linspace(0.0, octaves, int(octaves * POINTS_PER_OCTAVE) + 1))
    return tuple(sorted({round(c) for c in grid} | set(stated)))


def make_schedule(
    drafter: str,
    loads: Sequence[int],
    choices: Sequence[Choice],
    k: FloatArray,
    gain: Range,
    idle_gain: FloatArray,
    held_bytes: float,
    idle_s: FloatArray,
    keep_within: float = KEEP_WITHIN,
) -> Schedule:
    """Tiers of equal k. ``gain``: objective over plain decoding, (k, load); ``idle_gain``, ``idle_s``: per load, of a
    server that keeps the drafter loaded without using it.
    """
    mid, ks = np.asarray(gain.mid), np.asarray(k, dtype=int).ravel()
    tiers: list[Tier] = []
    for start, end, chosen in runs(choices, ks, mid, keep_within):
        at = np.flatnonzero(ks == chosen)
        first = final = Range(1.0, 1.0, 1.0)
        deployed = chosen
        if at.size:
            first, final = (_at(gain, int(at[0]), column) for column in (start, end - 1))
        else:
            inside = mid[:, start:end].mean(axis=1)
            deployed = int(ks[inside.argmax()]) if inside.max() > idle_gain[start:end].mean() else 0
        low_load, last = 1 if start == 0 else loads[start - 1] + 1, end - 1
        tiers.append(
            Tier(low_load, loads[last], chosen, deployed, first, final, held_bytes, float(idle_s[last]), float(idle_gain[last]))
        )
    off = tiers[-1].low if tiers[-1].k == 0 else None
    return Schedule(drafter, tuple(tiers), off)


def _at(gain: Range, row: int, column: int) -> Range:
    return Range(*(float(np.asarray(v)[row, column]) for v in (gain.low, gain.mid, gain.high)))


def runs(
    choices: Sequence[Choice], ks: FloatArray, gains: FloatArray, keep_within: float = KEEP_WITHIN
) -> list[tuple[int, int, int]]:
    """(first, one past last, k): greedily the longest runs of loads with one k within ``keep_within`` of every choice."""
    found: list[tuple[int, int, int]] = []
    start, common = 0, _near(choices[0], ks, gains[:, 0], keep_within)
    for column in range(1, len(choices) + 1):
        here = common & _near(choices[column], ks, gains[:, column], keep_within) if column < len(choices) else set()
        if here:
            common = here
            continue
        total = {k: 0.0 if k == 0 else float(gains[np.flatnonzero(ks == k)[0], start:column].mean()) for k in common}
        found.append((start, column, max(sorted(total), key=lambda k: total[k])))
        if column < len(choices):
            start, common = column, _near(choices[column], ks, gains[:, column], keep_within)
    return found


def _near(choice: Choice, ks: FloatArray, gains: FloatArray, keep_within: float) -> set[int]:
    """The choice and every other k within ``keep_within`` of its gain; 0 shares a tier with nothing."""
    if choice.k == 0:
        return {0}
    return {choice.k} | {int(k) for k in ks[gains >= (1.0 - keep_within) * choice.gain.mid]}
