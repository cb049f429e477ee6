"""From the catalogue's rows to the table of priors: the one computation behind the shipped files and exclusions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specadvisor.acceptance.catalogue import Row, load_rows, load_sources, read_table
from specadvisor.acceptance.kinds import fit_shapes
from specadvisor.acceptance.levels import predict_levels, row_levels, rows_behind, temperature_factors
from specadvisor.acceptance.priors import Prior, PriorTable
from specadvisor.acceptance.rules import left_out, temperature_pairs
from specadvisor.acceptance.shape import KindShape
from specadvisor.acceptance.survival import REFERENCE_K
from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import DRAFTERS, WORKLOADS


@dataclass(frozen=True, slots=True)
class Estimate:
    """The table, with what only its files show: number of temperature pairs, effect sizes, rows left out."""

    table: PriorTable
    pairs: Mapping[str, int]
    effect_sd: Mapping[str, float]
    left_out: Mapping[str, str]


def without_sources(exclude: Sequence[str]) -> list[Row]:
    """Rows whose source's id and address contain none of ``exclude`` (case does not matter)."""
    sources = load_sources()
    words = [word.lower() for word in exclude]
    return [
        row for row in load_rows()
        if not any(word in row.source.lower() or word in sources[row.source].address.lower() for word in words)
    ]  # fmt: skip


def shipped_effect_sd() -> dict[str, float]:
    """Sizes of the effects as estimated from the whole catalogue (``effects.csv``)."""
    return {row["effect"]: float(row["sd"]) for row in read_table(profiles_dir() / "acceptance" / "effects.csv")}


def estimate(
    rows: Iterable[Row], effect_sd: Mapping[str, float] | None = None, *, refit_effects: bool = False,
    setting: str = "speed_bench",
) -> Estimate:  # fmt: skip
    """Shapes, temperature factors and levels from ``rows``; a user's priors are those of ``setting`` speed_bench.

    The sizes of the effects are the shipped ones unless ``effect_sd`` is given or ``refit_effects`` asks for new ones.
    """
    rows = list(rows)
    out = left_out(rows)
    kept = [row for row in rows if row.id not in out]
    if not kept:
        raise InputError("exclude_sources", "all", "at least one source left in the catalogue")
    shapes = fit_shapes(rows)
    factors = temperature_factors(temperature_pairs(rows))
    cells = [(kind, workload) for kind in DRAFTERS for workload in WORKLOADS]
    sd = None if refit_effects else effect_sd or shipped_effect_sd()
    levels = predict_levels(kept, row_levels(kept, shapes, factors), cells, sd, setting)
    behind = rows_behind(kept)
    priors = {}
    for kind, workload in cells:
        level, level_sd = round(levels.mean[kind, workload], 3), round(levels.sd[kind, workload], 3)
        sigma = round(level_sd * _log_gain_slope(shapes[kind], level), 3)
        priors[kind, workload] = Prior(kind, workload, level, level_sd, sigma, *behind.get((kind, workload), (0, 0)))
    temperature = {kind: factor for kind, (factor, _) in factors.items()}
    pairs = {kind: n for kind, (_, n) in factors.items()}
    return Estimate(PriorTable(shapes, temperature, priors), pairs, levels.effect_sd, out)


def _log_gain_slope(shape: KindShape, level: float, step: float = 0.05) -> float:
    """d log(AL - 1) / d level at the reference k."""
    gains = [shape.at(level + side * step).survival(REFERENCE_K).sum() for side in (-1, 1)]
    return float(np.log(gains[1] / gains[0]) / (2 * step))
