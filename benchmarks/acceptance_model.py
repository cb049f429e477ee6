"""How well the acceptance model predicts what it has not seen: ``python benchmarks/acceptance_model.py [SWEEPS.csv]``.

1. AL(7) of every published per-position list with seven positions or more, from positions 1 to 4, and from AL at one k.
   The kind's usual shape comes from the other sources only (leave one source out).
2. Priors: every row that enters them, predicted without its source.
3. With a file of measured sweeps: the priors, without rows of the sweeps' own sources, against its acceptance lengths.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from specadvisor.acceptance import from_cumulative, prior
from specadvisor.acceptance.catalogue import Row, load_rows, load_sources
from specadvisor.acceptance.estimate import estimate, without_sources
from specadvisor.acceptance.kinds import FAMILY_OF, fit_shapes
from specadvisor.acceptance.levels import row_levels
from specadvisor.acceptance.posterior import fit_curve
from specadvisor.acceptance.rules import left_out
from specadvisor.acceptance.shape import FLAT, KindShape
from specadvisor.ids import resolve
from specadvisor.ranges import Z80

FAR = 7
NEAR = 4


def long_lists() -> list[Row]:
    """Published lists of at least seven positions; two of unknown kind cannot be read and are left out."""
    rows = [row for row in load_rows() if len(row.positions) >= FAR and None not in row.positions]
    unknown = [row for row in rows if row.survival is None]
    print(f"lists with {FAR} positions or more: {len(rows)}, of which {len(unknown)} of unknown kind are left out")
    return [row for row in rows if row.survival is not None]


@cache
def shapes_without(source: str) -> dict[str, KindShape]:
    return fit_shapes(row for row in load_rows() if row.source != source)


def list_errors(row: Row) -> dict[str, float]:
    """Relative errors of AL(7), by what was known, with the shape of other sources and with baselines."""
    s = row.survival
    assert s is not None
    truth = 1.0 + float(s[:FAR].sum())
    usual = shapes_without(row.source)[row.kind]
    known = from_cumulative(np.minimum.accumulate(s[:NEAR]).tolist())
    predicted = {
        f"positions 1-{NEAR}": fit_curve(known, usual, row.kind).survival.acceptance_length(FAR),
        f"positions 1-{NEAR}, last conditional repeated": known.acceptance_length(FAR),
    }
    for k in (1, 2, 3, NEAR):
        length = 1.0 + float(s[:k].sum())
        predicted[f"AL({k})"] = 1.0 + usual.solve(length, k).survival(FAR).sum()
        predicted[f"AL({k}), flat"] = 1.0 + FLAT.solve(length, k).survival(FAR).sum()
    errors = {name: float(value) / truth - 1.0 for name, value in predicted.items()}
    near = 1.0 + float(s[:3].sum())
    errors[f"AL({FAR}) -> AL(3)"] = (1.0 + float(usual.solve(truth, FAR).survival(3).sum())) / near - 1.0
    return errors


def describe(errors: Iterable[float]) -> str:
    e = np.array(list(errors))
    size = np.abs(e)
    return f"median {np.median(size):6.1%}  p90 {np.quantile(size, 0.9):6.1%}  bias {np.median(e):+6.1%}  n {e.size}"


def curves() -> None:
    print("\n1. AL(7), leave one source out")
    rows = long_lists()
    groups = {"printed": [r for r in rows if r.how not in ("digitised", "by eye")]}
    groups["digitised or by eye"] = [r for r in rows if r.how in ("digitised", "by eye")]
    groups["all"] = rows
    for name, members in groups.items():
        found = [list_errors(row) for row in members]
        print(f" {name}: {len(members)} lists of {len({row.source for row in members})} sources")
        for known in found[0]:
            print(f"   {known:44s} {describe(errors[known] for errors in found)}")


def priors() -> None:
    print("\n2. Priors, leave one source out: AL of every row from the rest of the catalogue")
    rows = list(load_rows())
    out = left_out(rows)
    kept = [row for row in rows if row.id not in out]
    by_kind: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for source in sorted({row.source for row in kept}):
        rest = [row for row in rows if row.source != source]
        for setting in sorted({row.setting for row in kept if row.source == source}):
            own = [row for row in kept if row.source == source and row.setting == setting]
            tables = [estimate(rest, setting=load).table for load in dict.fromkeys(("speed_bench", setting))]
            factors = {kind: (factor, 0) for kind, factor in tables[0].temperature.items()}
            levels = row_levels(own, tables[0].shapes, factors)
            votes = Counter(row.kind for row in kept if row.source == source)
            for row, level in zip(own, levels, strict=True):
                cells = [table.cells[row.kind, str(row.workload)] for table in (tables[0], tables[-1])]
                inside = [abs(level - cell.level) <= Z80 * cell.level_sd for cell in cells]
                slope = cells[0].sigma / cells[0].level_sd
                away = [float(level - cell.level) * slope for cell in cells]
                by_kind[row.kind].append((*away, *inside, 1.0 / votes[row.kind]))
    print("   one vote per source; error of log(AL - 1), measured minus predicted; share inside the 80% interval, predicted")
    print("   for a SPEED-Bench class load, as a user's prior is, and for the row's own kind of load: rows of papers' own")
    print("   harnesses lie above SPEED-Bench (bias > 0)")
    print("                    SPEED-Bench class load        own kind of load")
    for kind, found in sorted(by_kind.items(), key=lambda item: FAMILY_OF[item[0]]):
        as_prior, own_load, inside, inside_own, weight = (np.array(column, dtype=float) for column in zip(*found, strict=True))
        halves = [
            f"bias {np.average(e, weights=weight):+5.2f}  rms {np.sqrt(np.average(e**2, weights=weight)):4.2f}"
            f"  inside {np.average(i, weights=weight):4.0%}"
            for e, i in ((as_prior, inside), (own_load, inside_own))
        ]
        print(f"   {kind:16s} {halves[0]}   {halves[1]}  rows {len(found):4d}  sources {weight.sum():3.0f}")


def sweeps(path: Path) -> None:
    print(f"\n3. Priors against {path.name} (one value per case and drafter; its own sources left out)")
    own = ("SpecForge", "vllm-project.github.io", "2601.11580", "blog07", "vllm/pull/16937", "vllm/issues/35387")
    left = len(load_rows()) - len(without_sources(own))
    sources = sum(any(word.lower() in source.address.lower() for word in own) for source in load_sources().values())
    print(f"   left out: {left} rows of {sources} sources")
    cases: dict[tuple[str, str, str], list[tuple[float, bool]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            if not cells["accept_len"] or cells["tree"] or int(cells["k"]) < 1 or float(cells["accept_len"]) <= 1:
                continue
            kind, workload, k = resolve("drafter", cells["drafter_kind"]), cells["workload"] or "mixed", int(cells["k"])
            curve = prior(kind, workload, float(cells["temperature"] or 0), exclude_sources=own)
            interval, length = curve.range(k), float(cells["accept_len"])
            error = float(interval.mid) / length - 1.0
            cases[cells["case_id"], kind, workload].append((error, float(interval.low) <= length <= float(interval.high)))
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (_, kind, _), found in cases.items():
        by_kind[kind].append((float(np.median([e for e, _ in found])), float(np.mean([i for _, i in found]))))
    by_kind["all"] = [item for found in list(by_kind.values()) for item in found]
    for kind, found in by_kind.items():
        print(f"   {kind:16s} {describe(e for e, _ in found)}  inside {np.mean([i for _, i in found]):4.0%}")


if __name__ == "__main__":
    curves()
    priors()
    if len(sys.argv) > 1:
        sweeps(Path(sys.argv[1]))
