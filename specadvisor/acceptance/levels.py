"""Levels of acceptance by kind and workload, out of published rows of many sources, targets, k and temperatures.

Each row's AL becomes a level, the logit of a_1 at temperature 0 that gives the row's AL(k) through the kind's shape.
Levels are modelled as a sum of effects drawn around zero (a linear mixed model, best linear unbiased prediction):

    level = mean + class + base kind + kind + workload + kind x workload + setting + kind x setting
            + source (of its class) + source x target x drafter + rest

A cell with few rows is thereby drawn to its kind and workload, rows of one source do not count as independent, and a
kind seen only in papers takes the step that other kinds show between paper harnesses and SPEED-Bench. Sources that ran
SPEED-Bench share its prompts and scatter less than others, so they carry more weight. A prior is the prediction for
setting ``speed_bench`` with a new target and the scatter of any source: a user's load is no benchmark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from specadvisor.acceptance.catalogue import Row
from specadvisor.acceptance.kinds import FAMILY_OF
from specadvisor.acceptance.mixed_model import MixedModel
from specadvisor.acceptance.rules import METHOD_DEPTH, depth_of, row_length, tree_nodes
from specadvisor.acceptance.shape import KindShape
from specadvisor.acceptance.tree import best_tree_gain
from specadvisor.ranges import FloatArray

# Descendants with few rows of their own start from the kind they refine.
BASE_KIND = {
    "eagle3_1": "eagle3", "dflash2": "dflash", "domino": "dflash", "pard": "p_eagle", "suffix": "ngram",
}  # fmt: skip
# Heads of 2023-24, small additions to a finished model. MLP and LSTM speculators, though heads, count as trained drafters: on
# one engine they are faster than EAGLE (ArcticInference: 172 against 102 tokens per second, 76 without), and no row of theirs
# says by how much they accept more.
_CLASSES = {"medusa": "heads", "hydra": "heads"}

GROUPS: dict[str, Callable[[Row], str | None]] = {
    "class": lambda row: class_of(row.kind),
    "base": lambda row: BASE_KIND.get(row.kind, row.kind),
    "kind": lambda row: row.kind,
    "workload": lambda row: str(row.workload),
    "kind x workload": lambda row: f"{row.kind} {row.workload}",
    "setting": lambda row: row.setting,
    "kind x setting": lambda row: f"{row.kind} {row.setting}",
    "SPEED-Bench source": lambda row: row.source if row.setting == "speed_bench" else None,
    "other source": lambda row: row.source if row.setting != "speed_bench" else None,
    "source x target x drafter": lambda row: f"{row.source} {row.target} {row.drafter}",
}
# Three settings do not tell how far settings lie apart in general: they are as good as fixed.
FIXED_SD = {"setting": 1.0}
_GRID = np.linspace(-5.0, 6.0, 111)
_PAIRS_TO_TRUST = 5.0
_FACTOR = "widened:"


def class_of(kind: str) -> str:
    """Look-ups, recycled tokens, extra heads, or trained drafters: sets that differ in level before any row is seen."""
    return FAMILY_OF[kind] if FAMILY_OF[kind] in ("lookup", "recycled") else _CLASSES.get(kind, "trained")


@dataclass(frozen=True, slots=True)
class Levels:
    """Predicted level and its standard deviation by (kind, workload), with the standard deviations of the effects."""

    mean: dict[tuple[str, str], float]
    sd: dict[tuple[str, str], float]
    effect_sd: dict[str, float]


def temperature_factors(rows: Sequence[Row]) -> dict[str, tuple[float, int]]:
    """(AL - 1 at T = 1) / (AL - 1 at T = 0) by kind and the number of pairs; few pairs are drawn to all kinds' median."""
    cells: dict[tuple[object, ...], dict[float, float]] = defaultdict(dict)
    for row in rows:
        if row.temperature in (0.0, 1.0) and row_length(row) > 1:
            key: tuple[object, ...] = (
                row.source,
                row.target,
                row.kind,
                row.drafter,
                row.k,
                row.tree,
                row.dataset,
                row.category,
            )
            cells[key][float(row.temperature)] = row_length(row) - 1.0
    ratios: dict[str, list[float]] = defaultdict(list)
    for key, gains in cells.items():
        if len(gains) == 2:
            ratios[str(key[2])].append(gains[1.0] / gains[0.0])
    everything = median([ratio for found in ratios.values() for ratio in found] or [1.0])
    return {
        kind: (
            round((len(found) * median(found) + _PAIRS_TO_TRUST * everything) / (len(found) + _PAIRS_TO_TRUST), 3)
            if (found := ratios.get(kind, []))
            else round(everything, 3),
            len(found),
        )
        for kind in FAMILY_OF
    }


def row_levels(rows: Sequence[Row], shapes: Mapping[str, KindShape], factors: Mapping[str, tuple[float, int]]) -> FloatArray:
    """The level of every row: AL - 1 brought to temperature 0, then read off the kind's AL at that k (or tree)."""
    curves: dict[tuple[object, ...], FloatArray] = {}
    levels = np.empty(len(rows))
    for i, row in enumerate(rows):
        k = depth_of(row)
        assert k is not None
        nodes = 0 if row.kind in METHOD_DEPTH else tree_nodes(row) or 0
        if (key := (row.kind, k, nodes)) not in curves:
            curves[key] = _gains(shapes[row.kind], k, nodes)
        heat = 1.0 - (1.0 - factors[row.kind][0]) * min(row.temperature or 0.0, 1.0)
        levels[i] = np.interp(min((row_length(row) - 1.0) / heat, 0.98 * k), curves[key], _GRID)
    return levels


def predict_levels(
    rows: Sequence[Row], levels: FloatArray, cells: Sequence[tuple[str, str]], effect_sd: Mapping[str, float] | None = None,
    setting: str = "speed_bench",
) -> Levels:  # fmt: skip
    """Best linear unbiased prediction for ``cells`` in ``setting``; without ``effect_sd`` the effects' sizes are estimated.

    Stated deviations are widened, kind by kind, until they hold 80% of the rows of sources left out.
    """
    model = MixedModel(rows, levels, GROUPS, FIXED_SD)
    effects = model.solve(effect_sd) if effect_sd else model.estimate()
    sd = effects.sd
    new = sd["other source"] ** 2 + sd["source x target x drafter"] ** 2
    if not effect_sd:
        factors = model.scatter(effects, lambda row: _wanted(row.kind, str(row.workload), row.setting), new)
        sd |= {f"{_FACTOR} {name}": factor for name, factor in factors.items()}
    mean, spread = {}, {}
    for kind, workload in cells:
        mean[kind, workload], stated = model.predict(effects, _wanted(kind, workload, setting), new)
        spread[kind, workload] = stated * sd.get(f"{_FACTOR} {kind}", sd[f"{_FACTOR} all"])
    return Levels(mean, spread, {group: round(value, 3) for group, value in sd.items()})


def _wanted(kind: str, workload: str, setting: str) -> dict[str, str]:
    """The effects of a new source's level, by group."""
    return {
        "class": class_of(kind), "base": BASE_KIND.get(kind, kind), "kind": kind, "workload": workload,
        "kind x workload": f"{kind} {workload}", "setting": setting, "kind x setting": f"{kind} {setting}",
    }  # fmt: skip


def rows_behind(rows: Sequence[Row]) -> dict[tuple[str, str], tuple[int, int]]:
    """Number of rows and of sources by (kind, workload)."""
    count = Counter((row.kind, str(row.workload)) for row in rows)
    sources = defaultdict(set)
    for row in rows:
        sources[row.kind, str(row.workload)].add(row.source)
    return {cell: (n, len(sources[cell])) for cell, n in count.items()}


def _gains(shape: KindShape, k: int, nodes: int) -> FloatArray:
    conditionals = np.array([shape.at(level).conditional(k) for level in _GRID])
    if nodes:
        return best_tree_gain(conditionals, nodes - 1)[:, -1]
    return np.asarray(np.cumprod(conditionals, axis=1).sum(axis=1))
