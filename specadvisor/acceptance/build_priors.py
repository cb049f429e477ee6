"""Recompute the shipped tables of priors from the catalogue: ``python -m specadvisor.acceptance.build_priors``.

Reads ``profiles/acceptance/rows.csv`` and ``sources.csv``; writes shapes, temperature factors, priors, effect sizes, the
list of rows left out and that of targets, beside them or into the folder given as the only argument.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from specadvisor.acceptance.catalogue import load_rows
from specadvisor.acceptance.estimate import Estimate, estimate
from specadvisor.acceptance.rules import reasons
from specadvisor.acceptance.survival import REFERENCE_K
from specadvisor.data_files import profiles_dir, write_atomically
from specadvisor.ranges import Z80

_COMPUTED = "Computed from rows.csv by: python -m specadvisor.acceptance.build_priors"


def build() -> dict[str, str]:
    """The text of every computed file, by file name."""
    result = estimate(load_rows(), refit_effects=True)
    return {
        "shapes.csv": _shapes(result), "temperature.csv": _temperature(result), "priors.csv": _priors(result),
        "effects.csv": _effects(result), "left_out.csv": _left_out(result),
        "targets.csv": _targets(),
    }  # fmt: skip


def _shapes(result: Estimate) -> str:
    about = (
        "Usual run of conditional acceptance along the draft positions, by drafter kind:",
        "logit(limit) = intercept + 0.9 * logit(first), a_j = limit + (first - limit) * rate^(j-1), times cliff past depth.",
        "spread: standard deviation of the intercept between lists. Lists enter with one vote per source.",
    )
    header = ("kind", "intercept", "spread", "rate", "depth", "cliff", "lists", "sources", "basis")
    rows = [
        (s.kind, s.intercept, s.spread, s.rate, s.depth or "", s.cliff, s.lists, s.sources, s.basis)
        for s in result.table.shapes.values()
    ]
    return _table(about, header, rows)


def _temperature(result: Estimate) -> str:
    about = ("(AL - 1 at T = 1) / (AL - 1 at T = 0): median over paired rows, few pairs drawn to the median of all kinds.",)
    rows = [(kind, factor, result.pairs[kind]) for kind, factor in result.table.temperature.items()]
    return _table(about, ("kind", "factor", "pairs"), rows)


def _priors(result: Estimate) -> str:
    about = (
        "Prior level of acceptance by drafter kind and workload: logit of a_1 at temperature 0 on a SPEED-Bench class load,",
        "its standard deviation for a new source and target, and the log standard deviation of AL - 1 that follows.",
        f"length_{REFERENCE_K}_low to _high: the 10%, 50% and 90% quantiles of AL({REFERENCE_K}). rows and sources: of this",
        "kind and workload; with few of them the level follows the kind and the workload (specadvisor/acceptance/levels.py).",
    )
    header = (
        "kind", "workload", "level", "level_sd", "sigma", "rows", "sources",
        f"length_{REFERENCE_K}_low", f"length_{REFERENCE_K}", f"length_{REFERENCE_K}_high", "length_7",
    )  # fmt: skip
    rows = []
    for cell in result.table.cells.values():
        shape = result.table.shapes[cell.kind]
        quantiles = [shape.at(cell.level + side * Z80 * cell.level_sd).survival(REFERENCE_K).sum() for side in (-1, 0, 1)]
        lengths = [f"{1 + gain:.2f}" for gain in (*quantiles, shape.at(cell.level).survival(7).sum())]
        head = (cell.kind, cell.workload, cell.level, cell.level_sd, cell.sigma, cell.rows, cell.sources)
        rows.append((*head, *lengths))
    return _table(about, header, rows)


def _effects(result: Estimate) -> str:
    about = (
        "Standard deviations of the effects on the level, estimated by expectation maximisation; widened: the factor on the",
        "deviation of a kind's level with which intervals hold 80% of the rows of sources left out, one vote per source.",
    )
    return _table(about, ("effect", "sd"), list(result.effect_sd.items()))


def _targets() -> str:
    """Every recommendation asks for these: two short columns instead of the whole catalogue."""
    about = ("Targets, in small letters, that each kind of drafter has rows for, those that the rules leave out included.",)
    return _table(about, ("kind", "target"), sorted({(row.kind, row.target.lower()) for row in load_rows()}))


def _left_out(result: Estimate) -> str:
    about = ("Rows of rows.csv that do not enter the levels, with the rule that leaves them out.",)
    return _table(about, ("id", "rule", "reason"), [(row, rule, reasons()[rule]) for row, rule in result.left_out.items()])


def _table(about: Sequence[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    text.writelines(f"# {line}\n" for line in (*about, _COMPUTED))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def main() -> None:
    """Write the files and say which."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else profiles_dir() / "acceptance"
    for name, text in build().items():
        write_atomically(folder / name, text)
        print(folder / name)


if __name__ == "__main__":
    main()
