"""Scores of predicted speed-ups against measured ones: choice, sign, size, order and interval.

Parameters that were fitted on some families of sweeps may only be scored on the others; intervals of a mean resample
whole families, because the groups of one source share baseline, machine and prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from specadvisor.ranges import FloatArray
from specadvisor.validation.groups import MARGIN, Group, argmax_choice, drafter_sets, groups_of, naive_policies, usual_drafter
from specadvisor.validation.sweeps import SLICES

BOOTSTRAP_DRAWS = 1000
METRICS = ("throughput", "tpot")


@dataclass(frozen=True)
class Score:
    """Figures of one set of groups: nested dictionaries of numbers (fractions, not per cent; nan = does not apply)."""

    groups: int
    rows: int
    regret: dict[str, dict[str, float]] = field(default_factory=dict)
    sign: dict[str, dict[str, float]] = field(default_factory=dict)
    size: dict[str, dict[str, float]] = field(default_factory=dict)
    coverage: dict[str, float] = field(default_factory=dict)
    order: dict[str, float] = field(default_factory=dict)
    drafter_choice: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        names = ("groups", "rows", "regret", "sign", "size", "coverage", "order", "drafter_choice")
        return {name: getattr(self, name) for name in names}


SUBSETS: dict[str, Callable[[Group], bool]] = {
    "all": lambda g: True,
    "acceptance known": lambda g: g.facts["acceptance_given"] != "none",
    "acceptance unknown": lambda g: g.facts["acceptance_given"] == "none",
    "acceptance known, 3 or more k": lambda g: g.facts["acceptance_given"] != "none" and len(g.k) >= 3,
}


def merged(table: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """The sweep rows with k >= 1 with their predictions beside them (nan where a row was not predicted)."""
    names = ["predicted_throughput_speedup", "predicted_tpot_speedup", "low", "high", "chosen_k"]
    given = predictions[["group_id", "k", *(n for n in names if n in predictions)]].copy()
    for name in names:
        given[name] = pd.to_numeric(given[name], errors="coerce") if name in given else np.nan
    for name in names[:2]:
        given.loc[~(given[name] > 0), name] = np.nan
    return table.merge(given, on=["group_id", "k"], how="left")


@dataclass(frozen=True)
class JudgedGroup:
    """A group with what was predicted for it: gains per k in its metric, rank correlation, the choice of each policy."""

    group: Group
    predicted: FloatArray
    order: float
    regret: Mapping[str, float]


def score(table: pd.DataFrame, predictions: pd.DataFrame, draws: int = BOOTSTRAP_DRAWS) -> dict[str, Score]:
    """Scores of every subset (``all``, known and unknown acceptance ...) and of every slice (``tier: datacenter`` ...)."""
    rows = merged(table, predictions)
    groups = groups_of(table)
    judged = _judge(groups, rows)
    wanted: dict[str, list[str]] = {name: [i for i, g in groups.items() if keep(g)] for name, keep in SUBSETS.items()}
    for slice_ in SLICES:
        values = (
            table.groupby(slice_).concurrency.min().sort_values().index if slice_ == "load" else sorted(table[slice_].unique())
        )
        for value in values:
            wanted[f"{slice_}: {value}"] = [i for i, g in groups.items() if g.facts[slice_] == value]
    return {
        name: _score({i: judged[i] for i in members}, rows[rows.group_id.isin(set(members))], draws if name in SUBSETS else 0)
        for name, members in wanted.items()
        if members
    }


def _judge(groups: Mapping[str, Group], rows: pd.DataFrame) -> dict[str, JudgedGroup]:
    """Predicted gains, their order and the regret of every policy, for each group."""
    policies = naive_policies(groups)
    parts = {str(name): part for name, part in rows.sort_values("k").groupby("group_id")}
    judged = {}
    for name, group in groups.items():
        part = parts[name]
        predicted = predicted_gain(group, part)
        recommended = part.chosen_k.dropna()
        chosen: dict[str, int | None] = {
            "predicted": argmax_choice(group, predicted),
            "recommended": int(recommended.iloc[0]) if len(recommended) else None,
            **{policy: choose(group) for policy, choose in policies.items()},
        }
        known = ~np.isnan(predicted)
        order = spearman(predicted[known], group.gains[known]) if len(group.k) >= 3 and known.sum() >= 3 else float("nan")
        judged[name] = JudgedGroup(group, predicted, order, {policy: group.regret(k) for policy, k in chosen.items()})
    return judged


def predicted_gain(group: Group, part: pd.DataFrame) -> FloatArray:
    """Predicted speed-ups of a group's rows (ascending k) in its metric; TPOT where throughput was not predicted."""
    first = "predicted_tpot_speedup" if group.metric == "tpot" else "predicted_throughput_speedup"
    values = part[first].to_numpy(float)
    if np.isnan(values).all() and group.metric != "tpot":
        values = part["predicted_tpot_speedup"].to_numpy(float)
    return values


def _score(judged: Mapping[str, JudgedGroup], rows: pd.DataFrame, draws: int) -> Score:
    regret = {}
    families = [j.group.facts["family"] for j in judged.values()]
    for policy in next(iter(judged.values())).regret:
        regret[policy] = regret_figures(pd.Series([j.regret[policy] for j in judged.values()], dtype=float), families, draws)
    sign, size = {}, {}
    for metric in METRICS:
        measured, predicted = rows[f"{metric}_speedup"], rows[f"predicted_{metric}_speedup"]
        sign[metric], size[metric] = sign_figures(measured, predicted), size_figures(measured, predicted)
    main = rows.throughput_speedup.notna()
    measured = rows.throughput_speedup.where(main, rows.tpot_speedup)
    predicted = rows.predicted_throughput_speedup.where(main, rows.predicted_tpot_speedup)
    sign["main"] = sign_figures(measured, predicted)
    orders = [j.order for j in judged.values() if j.order == j.order]
    return Score(
        groups=len(judged),
        rows=len(rows),
        regret=regret,
        sign=sign,
        size=size,
        coverage=coverage_figures(measured, rows.low, rows.high),
        order={"n": len(orders), "mean": float(np.mean(orders)) if orders else float("nan")},
        drafter_choice=drafter_figures(judged),
    )


def regret_figures(values: pd.Series, families: list[str], draws: int) -> dict[str, float]:
    """Mean with its 95% interval over families, median, p90 and the share of groups that lose 3% or less."""
    family = pd.Series(families, index=values.index)[values.notna()]
    values = values.dropna()
    if values.empty:
        return {"n": 0, **dict.fromkeys(("mean", "low", "high", "median", "p90", "within_3"), float("nan"))}
    low, high = bootstrap_mean(values.to_numpy(), family.to_numpy(), draws)
    return {
        "n": len(values), "mean": float(values.mean()), "low": low, "high": high, "median": float(values.median()),
        "p90": float(values.quantile(0.9)), "within_3": float((values <= 0.03).mean()),
    }  # fmt: skip


def bootstrap_mean(values: FloatArray, families: Any, draws: int, seed: int = 0) -> tuple[float, float]:
    """95% interval of the mean when whole families are resampled; nan where ``draws`` is 0."""
    if not draws:
        return float("nan"), float("nan")
    _, family = np.unique(families, return_inverse=True)
    sums, counts = np.bincount(family, values), np.bincount(family)
    index = np.random.default_rng(seed).integers(0, len(sums), (draws, len(sums)))
    means = sums[index].sum(1) / counts[index].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def sign_figures(measured: pd.Series, predicted: pd.Series) -> dict[str, float]:
    """How often "faster or slower" is right, on rows that differ from 1 by more than the margin."""
    clear = measured.notna() & predicted.notna() & ((measured - 1).abs() > MARGIN)
    faster = measured[clear] > 1
    right = (predicted[clear] > 1) == faster
    yes = float(right[faster].mean()) if faster.any() else float("nan")
    no = float(right[~faster].mean()) if (~faster).any() else float("nan")
    sides = [x for x in (yes, no) if x == x]
    return {
        "n": int(clear.sum()), "accuracy": float(right.mean()) if len(right) else float("nan"), "faster": yes, "slower": no,
        "balanced": float(np.mean(sides)) if sides else float("nan"),
    }  # fmt: skip


def size_figures(measured: pd.Series, predicted: pd.Series) -> dict[str, float]:
    """Relative error of the predicted speed-up."""
    both = measured.notna() & predicted.notna()
    if not both.any():
        return {"n": 0, **dict.fromkeys(("median", "p90", "bias"), float("nan"))}
    error = predicted[both] / measured[both] - 1
    return {
        "n": int(both.sum()), "median": float(error.abs().median()), "p90": float(error.abs().quantile(0.9)),
        "bias": float(error.median()),
    }  # fmt: skip


def coverage_figures(measured: pd.Series, low: pd.Series, high: pd.Series) -> dict[str, float]:
    """Share of rows whose measured speed-up lies in the stated interval, and how wide it is (median of high / low)."""
    both = measured.notna() & low.notna() & high.notna()
    inside = (measured >= low) & (measured <= high)
    if not both.any():
        return {"n": 0, "inside": float("nan"), "width": float("nan")}
    return {"n": int(both.sum()), "inside": float(inside[both].mean()), "width": float((high[both] / low[both]).median())}


def spearman(left: FloatArray, right: FloatArray) -> float:
    """Rank correlation, ties with their mean rank; nan where one side is constant."""
    a, b = _ranks(left), _ranks(right)
    return float("nan") if a.std() == 0 or b.std() == 0 else float(np.corrcoef(a, b)[0, 1])


def drafter_figures(judged: Mapping[str, JudgedGroup]) -> dict[str, dict[str, float]]:
    """Regret of choosing drafter and k together, against a fixed order of kinds at the k nearest 3, and against never."""
    regret: dict[str, list[float]] = {"predicted": [], "fixed order, k = 3": [], "always off": []}
    groups = {name: j.group for name, j in judged.items()}
    for members in drafter_sets(groups):
        predicted = np.concatenate([[1.0], *(judged[name].predicted for name in members)])
        gains = np.concatenate([[1.0], *(groups[name].gains for name in members)])
        best = float(gains.max())
        usual = groups[usual_drafter(groups, members)]
        regret["predicted"].append(1.0 - float(gains[int(np.nanargmax(predicted))]) / best)
        regret["fixed order, k = 3"].append(1.0 - float(usual.gains[list(usual.k).index(usual.nearest(3))]) / best)
        regret["always off"].append(1.0 - 1.0 / best)
    return {
        name: {"n": len(values), "mean": float(np.mean(values)) if values else float("nan"),
               "within_3": float(np.mean(np.asarray(values) <= 0.03)) if values else float("nan")}
        for name, values in regret.items()
    }  # fmt: skip


def _ranks(values: FloatArray) -> FloatArray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
