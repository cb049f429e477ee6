"""Priors: what a drafter kind usually accepts on a workload, when nobody has measured it yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from specadvisor.acceptance.catalogue import read_table
from specadvisor.acceptance.context import context_factor, context_note, context_sigma
from specadvisor.acceptance.effects import language_code, language_note, with_gain
from specadvisor.acceptance.shape import KindShape, kind_shapes
from specadvisor.acceptance.survival import REFERENCE_K, Survival
from specadvisor.acceptance.workloads import parse_mix
from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import resolve
from specadvisor.ranges import FloatArray


@dataclass(frozen=True, slots=True)
class Prior:
    """One line of the table: the level (logit of a_1 at temperature 0), its spread and how many rows are behind it.

    ``sigma`` is the log standard deviation of AL - 1 at ``REFERENCE_K`` for a new source and target.
    """

    kind: str
    workload: str
    level: float
    level_sd: float
    sigma: float
    rows: int
    sources: int


@dataclass(frozen=True, slots=True)
class PriorTable:
    """Everything a prior is made of: shapes and temperature factors by kind, levels by (kind, workload)."""

    shapes: Mapping[str, KindShape]
    temperature: Mapping[str, float]
    cells: Mapping[tuple[str, str], Prior]


@cache
def shipped_table() -> PriorTable:
    """The table of ``profiles/acceptance``, as ``python -m specadvisor.acceptance.build_priors`` wrote it."""
    folder = profiles_dir() / "acceptance"
    cells = {
        (row["kind"], row["workload"]): Prior(
            row["kind"], row["workload"], float(row["level"]), float(row["level_sd"]), float(row["sigma"]),
            int(row["rows"]), int(row["sources"]),
        )
        for row in read_table(folder / "priors.csv")
    }  # fmt: skip
    temperature = {row["kind"]: float(row["factor"]) for row in read_table(folder / "temperature.csv")}
    return PriorTable(kind_shapes(), temperature, cells)


@cache
def _table(exclude: tuple[str, ...]) -> PriorTable:
    if not exclude:
        return shipped_table()
    from specadvisor.acceptance.estimate import estimate, without_sources

    return estimate(without_sources(exclude)).table


def prior(
    kind: str, workload: str | Mapping[str, float] = "mixed", temperature: float = 0.0, k_max: int = 16,
    exclude_sources: str | Sequence[str] = (), *, context: float | None = None, trained_context: float | None = None,
    language: str = "en",
) -> Survival:  # fmt: skip
    """The catalogue's survival curve of ``kind`` on ``workload`` (an id, ``"coding:0.7,chat:0.3"`` or a mapping).

    Shares of a mix are shares of the output tokens. ``exclude_sources`` are substrings of source addresses (or source
    ids) whose rows must not take part: a prediction of that source's own measurements. ``context`` in tokens matters
    beyond the drafter's ``trained_context`` (None: not known, see ``context.py``). A ``language`` other than
    ``en`` uses the multilingual level.
    """
    kind = resolve("drafter", kind)
    mix = parse_mix(workload)
    exclude = (exclude_sources,) if isinstance(exclude_sources, str) else tuple(sorted(exclude_sources))
    table = _table(exclude)
    if not np.isfinite(temperature) or temperature < 0:
        raise InputError("temperature", temperature, "a number of at least 0")
    if k_max < 1:
        raise InputError("k_max", k_max, "at least 1")
    notes: list[str] = []
    if language_code(language) != "en" and "multilingual" not in mix:
        notes.append(language_note(kind, language))
        mix = {"multilingual": 1.0}
    parts = [table.cells[kind, name] for name in mix]
    shape, length = table.shapes[kind], max(k_max, REFERENCE_K)
    curves = np.array([shape.at(part.level).survival(length) for part in parts])
    weights = np.array(list(mix.values()))
    rows = " + ".join(f"{part.workload} {part.rows} rows, {part.sources} sources" for part in parts)
    curve = Survival(
        curves[0] if len(parts) == 1 else token_share_mix(curves, weights),
        float(np.sqrt(weights @ np.array([part.sigma for part in parts]) ** 2)),
        f"catalogue prior for {kind} ({rows})",
    )
    factor = 1.0 - (1.0 - table.temperature[kind]) * min(float(temperature), 1.0)
    if context is not None:
        factor *= float(context_factor(kind, context, trained_context))
        curve = replace(curve, sigma=float(np.hypot(curve.sigma, context_sigma(kind, context, trained_context))))
        notes += [note] if (note := context_note(kind, context, trained_context)) else []
    if factor != 1.0:
        curve = with_gain(curve, factor, REFERENCE_K)
    return Survival(curve.s[:k_max], curve.sigma, curve.source, tail=curve.tail, notes=tuple(notes))


def token_share_mix(curves: FloatArray, weights: FloatArray) -> FloatArray:
    """Survival of a load whose output tokens come from several workloads, ``curves[i]`` with share ``weights[i]``.

    A workload that accepts more needs fewer rounds for its tokens: AL_mix(k) = 1 / sum_i (w_i / AL_i(k)).
    """
    lengths = 1.0 + np.cumsum(curves, axis=1)
    mixed = 1.0 / np.sum(weights[:, None] / lengths, axis=0)
    return np.diff(mixed, prepend=1.0)
