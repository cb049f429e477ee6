"""Priors: what a drafter kind usually accepts on a workload, when nobody has measured it yet."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from specadvisor.acceptance.effects import temperature_factor, with_gain
from specadvisor.acceptance.shape import kind_shape
from specadvisor.acceptance.survival import Survival
from specadvisor.acceptance.workloads import parse_mix
from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import resolve

REFERENCE_K = 3


@dataclass(frozen=True, slots=True)
class Prior:
    """One line of the table: the level (logit of a_1 at temperature 0) and where it comes from."""

    kind: str
    workload: str
    level: float
    sigma: float
    rows: int
    sources: int
    basis: str


@cache
def shipped_priors() -> dict[tuple[str, str], Prior]:
    """The table ``profiles/acceptance/priors.csv`` by (kind, workload)."""
    with (profiles_dir() / "acceptance" / "priors.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            (row["kind"], row["workload"]): Prior(
                row["kind"], row["workload"], float(row["level"]), float(row["sigma"]),
                int(row["rows"]), int(row["sources"]), row["basis"],
            )
            for row in rows
        }  # fmt: skip


def prior(
    kind: str, workload: str | Mapping[str, float] = "mixed", temperature: float = 0.0, k_max: int = 16,
    exclude_sources: Sequence[str] = (),
) -> Survival:  # fmt: skip
    """The catalogue's survival curve of ``kind`` on ``workload`` (an id, ``"coding:0.7,chat:0.3"`` or a mapping).

    Shares of a mix are shares of the output tokens. ``exclude_sources`` are substrings of source addresses whose rows
    must not take part (a prediction of that source's own measurements).
    """
    kind = resolve("drafter", kind)
    mix = parse_mix(workload)
    table = shipped_priors()
    parts = []
    for name in mix:
        found = table.get((kind, name))
        if found is None:
            known = sorted({k for k, _ in table})
            raise InputError("drafter", kind, ", ".join(known), "No published acceptance is known for it: give your own.")
        parts.append(found)
    shape = kind_shape(kind)
    curves = [shape.at(part.level).survival(max(k_max, REFERENCE_K)) for part in parts]
    weights = np.array(list(mix.values()))
    s = curves[0] if len(curves) == 1 else token_share_mix(np.array(curves), weights)
    sigma = float(np.sqrt(np.sum(weights * np.array([part.sigma for part in parts]) ** 2)))
    rows, sources = sum(part.rows for part in parts), max(part.sources for part in parts)
    curve = Survival(s, sigma, f"catalogue prior: {kind}, {' + '.join(mix)} ({rows} rows, {sources} sources)")
    factor = temperature_factor(kind, temperature)
    if factor != 1.0:
        curve = with_gain(curve, factor, REFERENCE_K)
    return Survival(curve.s[:k_max], sigma, curve.source, tail=curve.tail if k_max >= curve.k_max else None)


def token_share_mix(curves: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Survival of a load whose output tokens come from several workloads, ``curves[i]`` with share ``weights[i]``.

    A workload that accepts more needs fewer rounds for its tokens: AL_mix(k) = 1 / sum_i (w_i / AL_i(k)).
    """
    lengths = 1.0 + np.cumsum(curves, axis=1)
    mixed = 1.0 / np.sum(weights[:, None] / lengths, axis=0)
    return np.diff(mixed, prepend=1.0)
