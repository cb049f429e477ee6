"""Number of draft tokens by load: contiguous ranges of concurrency, and the load from which speculation does not pay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specadvisor.advise.choose import PLATEAU, Choice
from specadvisor.advise.recommendation import Schedule, Tier
from specadvisor.ranges import FloatArray, Range

POINTS_PER_OCTAVE = 4


def schedule_loads(largest: int, stated: Sequence[int] = ()) -> tuple[int, ...]:
    """Loads at which the schedule is decided: 1 to ``largest`` in quarter octaves, and every stated load."""
    octaves = np.log2(max(largest, 1))
    grid = np.exp2(np.linspace(0.0, octaves, int(octaves * POINTS_PER_OCTAVE) + 1))
    return tuple(sorted({round(c) for c in grid} | set(stated)))


def deciding_loads(loads: Sequence[int], stated: Sequence[int]) -> list[bool]:
    """Which of ``loads`` decide k: the stated ones and powers of two. The others only say where one k hands over."""
    return [load in stated or load & (load - 1) == 0 for load in loads]


def make_schedule(
    drafter: str,
    loads: Sequence[int],
    choices: Sequence[Choice],
    k: FloatArray,
    gain: Range,
    idle_gain: FloatArray,
    held_bytes: float,
    idle_s: FloatArray,
    stated: Sequence[int],
    plain: FloatArray | None = None,
    furthest: int | None = None,
) -> Schedule:
    """Tiers of equal k, from concurrency 1 (a single load: only that one).

    ``gain``: objective over plain decoding, (k, load); ``plain``: that of k = 0 per load (None: 1). ``idle_gain``,
    ``idle_s``: per load, of a server that keeps the drafter loaded without using it. ``furthest``: the largest k that a
    loaded drafter may run where nothing is to gain (None: any).
    """
    ks = np.concatenate(([0], np.asarray(k, dtype=int).ravel()))
    mid = np.vstack([np.ones(len(loads)) if plain is None else plain, np.asarray(gain.mid)])
    decided = decide(choices, ks, mid, deciding_loads(loads, stated))
    tiers: list[Tier] = []
    starts = [0, *(c for c in range(1, len(loads)) if decided[c] != decided[c - 1])]
    for start, end in zip(starts, [*starts[1:], len(loads)], strict=True):
        chosen = deployed = int(decided[start])
        first = final = Range(1.0, 1.0, 1.0)
        if chosen:
            row = int(np.flatnonzero(ks == chosen)[0]) - 1
            first, final = (_at(gain, row, column) for column in (start, end - 1))
        else:
            inside = np.where(ks[1:] <= (furthest or ks.max()), mid[1:, start:end].mean(axis=1), 0.0)
            deployed = int(ks[1 + inside.argmax()]) if inside.max() > idle_gain[start:end].mean() else 0
        last = end - 1
        low_load = loads[start - 1] + 1 if start else 1 if len(loads) > 1 else loads[0]
        tiers.append(
            Tier(low_load, loads[last], chosen, deployed, first, final, held_bytes, float(idle_s[last]), float(idle_gain[last]))
        )
    off = tiers[-1].low if tiers[-1].k == 0 else None
    return Schedule(drafter, tuple(tiers), off)


def _at(gain: Range, row: int, column: int) -> Range:
    return Range(*(float(np.asarray(v)[row, column]) for v in (gain.low, gain.mid, gain.high)))


def decide(choices: Sequence[Choice], ks: FloatArray, gains: FloatArray, deciding: Sequence[bool]) -> FloatArray:
    """k at each load. ``gains``: (``ks``, load), k = 0 included. Runs of deciding loads share a k; between two runs the k
    changes where the gains add up to the most. A load in between where that k would lose more than the plateau, or where the
    run is off, takes its own choice: it is off by the rule of ``choose_k`` only, and not at all right below a trial.
    """
    columns = np.flatnonzero(deciding)
    rows = {int(k): i for i, k in enumerate(ks)}
    logs = np.log(np.maximum(gains, 1e-9))
    decided = np.zeros(len(choices), dtype=int)
    last, before = -1, 0
    for first, end, k in runs([choices[int(c)] for c in columns]):
        start = int(columns[first])
        if last >= 0:
            inner = np.arange(last + 1, start)
            kept = logs[rows[before], inner].cumsum() - logs[rows[k], inner].cumsum()
            handover = int(np.argmax(np.concatenate(([0.0], kept))))
            decided[inner[:handover]], decided[inner[handover:]] = before, k
        last, before = int(columns[end - 1]), k
        decided[start : last + 1] = k
    chosen = gains[[rows[int(k)] for k in decided], np.arange(len(choices))]
    own, trial = np.array([choice.k for choice in choices]), np.array([choice.trial for choice in choices])
    between = ~np.asarray(deciding)
    losing = between & ~trial & (chosen < (1.0 - PLATEAU) * gains[0])
    decided = np.where(between & (losing | (decided == 0)), own, decided)
    for column in range(len(choices) - 2, -1, -1):
        if between[column] and not decided[column] and trial[column + 1 :].any():
            decided[column] = decided[column + 1]
    return decided


def runs(choices: Sequence[Choice]) -> list[tuple[int, int, int]]:
    """(first, one past last, k): greedily the longest runs of loads that can share one k (``Choice.shares``).

    The k that most loads of a run chose, of equals the smallest; off shares a run with nothing.
    """
    found: list[tuple[int, int, int]] = []
    start, common = 0, set(choices[0].shares)
    for column in range(1, len(choices) + 1):
        here = common & set(choices[column].shares) if column < len(choices) else set()
        if here:
            common = here
            continue
        chosen = [choice.k for choice in choices[start:column]]
        found.append((start, column, max(sorted(common), key=chosen.count)))
        if column < len(choices):
            start, common = column, set(choices[column].shares)
    return found
