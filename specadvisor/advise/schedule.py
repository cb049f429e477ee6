"""Number of draft tokens by load: contiguous ranges of concurrency, and the load from which speculation does not pay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specadvisor.advise.choose import Choice
from specadvisor.advise.recommendation import Schedule, Tier
from specadvisor.ranges import FloatArray, Range

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
    """Tiers of equal k, from concurrency 1 (a single load: only that one). ``gain``: objective over plain decoding, (k, load); ``idle_gain``, ``idle_s``: per load, of a
    server that keeps the drafter loaded without using it.
    """
    mid, ks = np.asarray(gain.mid), np.asarray(k, dtype=int).ravel()
    tiers: list[Tier] = []
    for start, end, chosen in runs(choices, ks, mid):
        at = np.flatnonzero(ks == chosen)
        first = final = Range(1.0, 1.0, 1.0)
        deployed = chosen
        if at.size:
            first, final = (_at(gain, int(at[0]), column) for column in (start, end - 1))
        else:
            inside = mid[:, start:end].mean(axis=1)
            deployed = int(ks[inside.argmax()]) if inside.max() > idle_gain[start:end].mean() else 0
        last = end - 1
        low_load = loads[start - 1] + 1 if start else 1 if len(loads) > 1 else loads[0]
        tiers.append(
            Tier(low_load, loads[last], chosen, deployed, first, final, held_bytes, float(idle_s[last]), float(idle_gain[last]))
        )
    off = tiers[-1].low if tiers[-1].k == 0 else None
    return Schedule(drafter, tuple(tiers), off)


def _at(gain: Range, row: int, column: int) -> Range:
    return Range(*(float(np.asarray(v)[row, column]) for v in (gain.low, gain.mid, gain.high)))


def runs(choices: Sequence[Choice], ks: FloatArray, gains: FloatArray) -> list[tuple[int, int, int]]:
    """(first, one past last, k): greedily the longest runs of loads with one k in every plateau.

    The k that most loads of a run chose, of equals the one with the best mean gain; off shares a run with nothing.
    """
    found: list[tuple[int, int, int]] = []
    start, common = 0, _near(choices[0])
    for column in range(1, len(choices) + 1):
        here = common & _near(choices[column]) if column < len(choices) else set()
        if here:
            common = here
            continue
        chosen = [choice.k for choice in choices[start:column]]
        mean = {k: 1.0 if k == 0 else float(gains[np.flatnonzero(ks == k)[0], start:column].mean()) for k in common}
        found.append((start, column, max(sorted(common), key=lambda k: (chosen.count(k), mean[k]))))
        if column < len(choices):
            start, common = column, _near(choices[column])
    return found


def _near(choice: Choice) -> set[int]:
    return set(choice.plateau) if choice.k else {0}
