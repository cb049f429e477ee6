"""A decision: the options of one group, what each was measured to give, and the policies that choose among them.

A group is one setting at one load; its options are the k that were measured, and 0 where the setting has a baseline
without speculation. Regret of a choice = 1 - measured(chosen) / measured(best option).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from specadvisor.ranges import FloatArray

# |speed-up - 1| below this is "no difference": published repeats of one arm differ by as much.
MARGIN = 0.03


@dataclass(frozen=True)
class Group:
    """``metric``: throughput where every row has it, else tpot, else tok_s (no baseline: 0 is no option).

    ``k`` ascending without 0; ``options`` and ``measured`` include 0 (speed-up 1) where there is a baseline.
    """

    id: str
    metric: str
    k: np.ndarray
    gains: FloatArray
    facts: Mapping[str, Any]

    @property
    def has_baseline(self) -> bool:
        return self.metric != "tok_s"

    @property
    def options(self) -> np.ndarray:
        return np.concatenate([[0], self.k]) if self.has_baseline else self.k

    @property
    def measured(self) -> FloatArray:
        return np.concatenate([[1.0], self.gains]) if self.has_baseline else self.gains

    @property
    def best(self) -> float:
        return float(self.measured.max())

    @property
    def best_k(self) -> int:
        return int(self.options[int(self.measured.argmax())])

    def regret(self, k: int | None) -> float:
        """Share of the best that choosing ``k`` loses; nan where ``k`` is None or was not measured."""
        index = np.flatnonzero(self.options == k)
        return float("nan") if k is None or not index.size else 1.0 - float(self.measured[index[0]]) / self.best

    def nearest(self, k: int) -> int:
        """The measured k nearest to ``k``; of two equally near ones the smaller."""
        return int(self.k[int(np.abs(self.k - k).argmin())])


def groups_of(table: pd.DataFrame) -> dict[str, Group]:
    """Every group of a sweep table, by id."""
    ordered = table.sort_values(["group_id", "k"], kind="stable")
    names = ordered.group_id.to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
    ends = np.append(starts[1:], len(names))
    first: list[Any] = ordered.iloc[starts].to_dict("records")
    columns = {name: ordered[name].to_numpy(float) for name in ("throughput_speedup", "tpot_speedup", "spec_tok_s")}
    k = ordered.k.to_numpy(int)
    groups = {}
    for facts, start, end in zip(first, starts, ends, strict=True):
        gains = {name: values[start:end] for name, values in columns.items()}
        metric = next((m for m in ("throughput", "tpot") if not np.isnan(gains[f"{m}_speedup"]).any()), "tok_s")
        column = "spec_tok_s" if metric == "tok_s" else f"{metric}_speedup"
        groups[str(facts["group_id"])] = Group(str(facts["group_id"]), metric, k[start:end], gains[column], facts)
    return groups


Policy = Callable[[Group], int | None]


def naive_policies(groups: Mapping[str, Group]) -> dict[str, Policy]:
    """The policies that an advice has to beat. The last keeps, at every load, the k that was best at concurrency 1."""
    at_one = {g.facts["series"]: g for g in groups.values() if g.facts["concurrency"] == 1}
    loads: dict[str, set[float]] = {}
    for group in groups.values():
        loads.setdefault(group.facts["series"], set()).add(group.facts["concurrency"])

    def kept(group: Group) -> int | None:
        first = at_one.get(group.facts["series"])
        if first is None or len(loads[group.facts["series"]]) < 2:
            return None
        if first.best_k == 0:
            return 0 if group.has_baseline else None
        return group.nearest(first.best_k)

    return {
        "always off": lambda g: 0 if g.has_baseline else None,
        "k = 3": lambda g: g.nearest(3),
        "k = 5": lambda g: g.nearest(5),
        "largest k": lambda g: int(g.k.max()),
        "best k at c = 1 kept": kept,
    }


def argmax_choice(group: Group, predicted: FloatArray) -> int | None:
    """The k with the largest predicted speed-up (ties: the smaller), 0 where nothing was predicted and 0 is an option."""
    if np.isnan(predicted).all():
        return 0 if group.has_baseline else None
    values = np.concatenate([[1.0], predicted]) if group.has_baseline else predicted
    return int(group.options[int(np.nanargmax(values))])


_KIND_ORDER = (
    "mtp", "eagle3_1", "eagle3", "dspark", "p_eagle", "dflash2", "dflash", "draft_model", "eagle", "medusa", "suffix", "ngram",
)  # fmt: skip
# Families whose variants differ in the server's settings (pool sizes), not in the drafter.
_NO_DRAFTER_CHOICE = ("mb",)


def drafter_sets(groups: Mapping[str, Group]) -> list[list[str]]:
    """Groups that share everything but the drafter (or its tree): lists of group ids with two or more members."""
    sets: dict[tuple[Any, ...], list[str]] = {}
    for name, group in groups.items():
        facts = group.facts
        if not group.has_baseline or facts["family"] in _NO_DRAFTER_CHOICE:
            continue
        case = pd.Series([facts["case_id"]]).str.replace(r"-(draft\w+|eagle3|dspark|eagle-3-1)(?=-|$)", "", regex=True)[0]
        same = ("source_url", "target", "weight_format", "kv_format", "gpu", "n_gpus", "tp", "dp", "dataset", "temperature",
                "concurrency", "baseline_tok_s", "baseline_tpot_ms", "cuda_graphs")  # fmt: skip
        key = (case, group.metric, *(str(facts.get(column, "")) for column in same))
        sets.setdefault(key, []).append(name)
    return [members for members in sets.values() if len(members) > 1]


def usual_drafter(groups: Mapping[str, Group], members: list[str]) -> str:
    """The member that a fixed order of drafter kinds prefers, chains before trees."""

    def rank(name: str) -> tuple[int, bool]:
        kind = groups[name].facts["drafter_kind"]
        return (_KIND_ORDER.index(kind) if kind in _KIND_ORDER else len(_KIND_ORDER)), groups[name].facts["tree"] != ""

    return min(members, key=rank)
