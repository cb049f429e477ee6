"""Lists of conditional acceptance that may shape a drafter kind: complete ones, with gaps, and out of lengths at several k."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specadvisor.acceptance.catalogue import Row
from specadvisor.acceptance.rules import COLLAPSE, DUPLICATES, RULES, left_out
from specadvisor.ranges import FloatArray

LEAST_POSITIONS = 3


@dataclass(frozen=True, slots=True)
class ShapeList:
    """a_1, a_2, ... of one published measurement, nan where a position was not printed."""

    kind: str
    source: str
    conditional: FloatArray


def usable_lists(rows: Iterable[Row]) -> list[Row]:
    """Rows whose per-position list may shape a kind: of known kind, its first and two more positions, real text.

    Gaps are no harm to conditional lists. A list that collapses at position 2 belongs to a drafter trained for one step and
    used for more (the cliff).
    """
    lists_stay = {rule.name for rule in RULES if rule.keeps_list} | set(DUPLICATES)
    rows = list(rows)
    out = left_out(rows)
    found = []
    for row in rows:
        a = row.conditional
        if a is None or row.workload == "random" or out.get(row.id, "repeated") not in lists_stay:
            continue
        printed = np.isfinite(a)
        if printed[0] and printed.sum() >= LEAST_POSITIONS and not (printed[1] and a[1] <= COLLAPSE):
            found.append(row)
    return found


def shape_lists(rows: Iterable[Row], without: Sequence[str] = ()) -> list[ShapeList]:
    """Every usable list; for kinds in ``without``, which print none, also those that lengths at k = 1, 2, 3, ... make up."""
    rows = list(rows)
    lists = []
    for row in usable_lists(rows):
        a = row.conditional
        assert a is not None
        lists.append(ShapeList(row.kind, row.source, a))
    return [*lists, *(found for found in _of_lengths(rows) if found.kind in without)]


def _of_lengths(rows: Iterable[Row]) -> list[ShapeList]:
    """AL(1), AL(2), ... of one drafter on one set: s_k = AL(k) - AL(k - 1)."""
    sweeps: dict[tuple[object, ...], dict[int, float]] = defaultdict(dict)
    rows = [row for row in rows if row.k and not row.tree and not row.positions and row.length is not None]
    key: tuple[object, ...]
    for row in rows:
        key = (row.source, row.target, row.kind, row.drafter, row.dataset, row.category, row.temperature, row.engine)
        assert row.k is not None
        assert row.length is not None
        sweeps[key][row.k] = row.length
    lists = []
    for key, lengths in sweeps.items():
        n = next(k for k in range(1, len(lengths) + 2) if k not in lengths) - 1
        if n < LEAST_POSITIONS:
            continue
        s = np.diff([1.0, *(lengths[k] for k in range(1, n + 1))])
        a = s / np.concatenate(([1.0], s[:-1]))
        if np.all((a > COLLAPSE) & (a <= 1.0)):
            lists.append(ShapeList(str(key[2]), str(key[0]), a))
    return lists
