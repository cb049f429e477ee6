"""Parameters for a GPU without rows: from its family's other GPUs, else from the other families; and how well that predicts."""

from __future__ import annotations

import numpy as np
from kernel_tables import FAMILIES, Table, family_of, first_tables, quantiles

from specadvisor.calibration.fit import geometric_mean
from specadvisor.calibration.fit_laws import LAWS
from specadvisor.hardware import load_gpu

Key = tuple[str, str, str, str]


def family_parameters(
    first: dict[Key, Table], family: str, operator: str, format: str, engine: str, without: str = ""
) -> dict[str, float] | None:
    """Mean of the family's measured GPUs for this engine, else for any engine; ``without`` leaves one GPU out."""
    members = [gpu for gpu in FAMILIES[family] if gpu != without]
    same = [first[key].fitted.parameters for gpu in members if (key := (gpu, operator, format, engine)) in first]
    other = [t.fitted.parameters for (gpu, o, f, _), t in first.items() if gpu in members and (o, f) == (operator, format)]
    return geometric_mean(same or other) if same or other else None


def stranger_parameters(
    first: dict[Key, Table], families: list[str], operator: str, format: str, engine: str
) -> dict[str, float] | None:
    """The median of every parameter over several families: one with an unusual floor does not decide.

    An SM rate near its starting value, or at 1000, was not determined by any row; it counts only if no family has one that was.
    """
    found = [p for f in families if (p := family_parameters(first, f, operator, format, engine))]
    if not found:
        return None
    start = LAWS[operator].start
    median = {}
    for name in found[0]:
        values = [p[name] for p in found]
        if name.startswith("sm_"):
            values = [v for v in values if v < 1000 and abs(np.log(v / start[name])) > 0.05] or [1000.0]
        median[name] = float(np.median(values))
    return median


def transfer_errors(tables: list[Table], with_sibling: bool) -> dict[Key, tuple[float, float]]:
    """(median, p90) of every table under parameters that never saw its GPU.

    With a sibling: the rest of its family. Without: the other families only, as for a GPU of an unmeasured family.
    """
    first = first_tables(tables)
    errors: dict[Key, tuple[float, float]] = {}
    for key, table in first.items():
        gpu, operator, format, engine = key
        family = family_of(gpu)
        if with_sibling:
            parameters = family_parameters(first, family, operator, format, engine, without=gpu)
        else:
            others = [name for name in FAMILIES if name != family]
            if operator == "all_reduce":
                others = [name for name in others if load_gpu(FAMILIES[name][0]).nvlink == load_gpu(gpu).nvlink]
            parameters = stranger_parameters(first, others, operator, format, engine)
        if parameters:
            errors[key] = quantiles(table.errors_with(parameters))
    return errors


def median_quantiles(errors: dict[Key, tuple[float, float]]) -> tuple[float, float] | None:
    """Median over tables of each table's median and p90: the band of a default, which one odd kernel must not set."""
    if not errors:
        return None
    median, p90 = np.nanmedian(list(errors.values()), axis=0)
    return float(median), float(p90)


def mean_quantiles(errors: dict[Key, tuple[float, float]]) -> tuple[float, float] | None:
    """Mean over tables of each table's median and p90."""
    if not errors:
        return None
    median, p90 = np.nanmean(list(errors.values()), axis=0)
    return float(median), float(p90)
