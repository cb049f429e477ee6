"""Number of draft tokens by load: contiguous ranges of concurrency, and the load from which speculation does not pay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specadvisor.advise.choose import Choice
from specadvisor.advise.recommendation import Schedule, Tier
from specadvisor.ranges import FloatArray, Range

# A k that is this close to the best one stays in force: published ladders do not resolve less, and switching costs.
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
) -> Schedule:
    """Tiers of equal k. ``gain``: objective over plain decoding, (k, load); ``idle_gain``, ``idle_s``: per load, of a
    server that keeps the drafter loaded without using it.
    """
    mid = np.asarray(gain.mid)
    ks = np.asarray(k, dtype=int).ravel()
    chosen: list[int] = []
    for column, choice in enumerate(choices):
        chosen.append(_kept(chosen[-1] if chosen else None, choice, ks, mid[:, column]))
    deployed = [
        int(ks[np.argmax(mid[:, c])]) if mid[:, c].max() > idle_gain[c] and choices[c].k == 0 else chosen[c]
        for c in range(len(loads))
    ]
    tiers: list[Tier] = []
    start = 0
    for end in range(1, len(loads) + 1):
        if end < len(loads) and (chosen[end], deployed[end]) == (chosen[start], deployed[start]):
            continue
        last = end - 1
        at = np.flatnonzero(ks == chosen[start])
        speedup = Range(1.0, 1.0, 1.0)
        if at.size:
            low, middle, high = (np.asarray(v)[at[0], start:end] for v in (gain.low, gain.mid, gain.high))
            speedup = Range(float(low.min()), float(np.median(middle)), float(high.max()))
        low_load = loads[start] if start == 0 else loads[start - 1] + 1
        tiers.append(
            Tier(
                low_load,
                loads[last],
                chosen[start],
                deployed[start],
                speedup,
                held_bytes,
                float(idle_s[last]),
                float(idle_gain[last]),
            )
        )
        start = end
    return Schedule(drafter, tuple(tiers), _crossover(loads, chosen))


def _kept(previous: int | None, choice: Choice, ks: FloatArray, gains: FloatArray) -> int:
    """The previous load's k while it is within ``KEEP_WITHIN`` of this load's best; else the choice."""
    if previous is None or previous == choice.k:
        return choice.k
    best = max(1.0, float(gains.max()))
    value = 1.0 if previous == 0 else float(gains[np.flatnonzero(ks == previous)[0]])
    return previous if choice.k != 0 and previous != 0 and value >= (1.0 - KEEP_WITHIN) * best else choice.k


def _crossover(loads: Sequence[int], chosen: Sequence[int]) -> int | None:
    """Lowest load from which on every choice is 0."""
    off = len(loads)
    while off > 0 and chosen[off - 1] == 0:
        off -= 1
    return loads[off] if off < len(loads) else None
