"""Fit and write profiles/kernels/*.json from the tables in benchmarks/data: python benchmarks/fit_profiles.py

Verify attention that was measured with this package (``own_measurements``) is fitted from its own table.

Entries of ``families.json`` whose provenance has ``assumed`` are kept as they are written there by hand, the others replaced.
"""

from __future__ import annotations

import json
from pathlib import Path

from kernel_tables import DATA_DATE, FAMILIES, FILES, GPUS, SOURCE, Table, far_slower, first_tables, fit_tables, not_shipped
from own_measurements import with_measured
from transfer import family_parameters, median_quantiles, stranger_parameters, transfer_errors

from specadvisor.calibration.fit_entry import entry_of
from specadvisor.hardware.kernel_profile import ANY, KernelEntry, KernelProfile, write_kernel_profile

PROFILES = Path(__file__).parent.parent / "profiles" / "kernels"
# Families without a table of their own, and the families that they lean on.
UNMEASURED = {
    "older": ("ampere", "ada", "blackwell_rtx"),
    "ampere_rtx": ("ada", "blackwell_rtx"),
    "thor": ("blackwell", "blackwell_rtx"),
}
# What a transfer can be called where nothing tests it: (median, p90).
UNTESTED = {"sibling": (0.10, 0.35), "extrapolated": (0.40, 1.00)}
ENGINE_ORDER = ("vllm", "sglang", "tensorrt_llm", "nccl")


def main() -> None:
    tables: list[Table] = []
    for name in FILES:
        for table in fit_tables(name):
            if reason := not_shipped(table):
                print(f"  not shipped {table.name}: {reason}")
            else:
                tables.append(table)
    for gpu in GPUS:
        entries = with_measured([entry(t) for t in tables if t.gpu == gpu], gpu)
        path = write_kernel_profile(KernelProfile(gpu, entries, "shipped"), PROFILES / f"{gpu}.json")
        print(f"{path.name}: {len(entries)} entries")
    write_families(tables)


def entry(table: Table) -> KernelEntry:
    provenance = {"source": SOURCE, "data": DATA_DATE, **({"only_this_engine": True} if far_slower(table) else {})}
    return entry_of(table.fitted, table.operator, table.format, table.engine, table.kernel, provenance)


def write_families(tables: list[Table]) -> None:
    path = PROFILES / "families.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    tables = [t for t in tables if not far_slower(t)]
    first = first_tables(tables)
    bands = transfer_bands(tables)
    for family in data["families"]:
        name = family["family"]
        assumed = [row for row in family["entries"] if "assumed" in row["provenance"]]
        fitted = family_entries(first, bands, name)
        covered = {(row["operator"], row["format"]) for row in fitted}
        family["entries"] = fitted + [row for row in assumed if (row["operator"], row["format"]) not in covered]
    lines = []
    for family in data["families"]:
        head = json.dumps({key: value for key, value in family.items() if key != "entries"})
        rows = ",\n".join("       " + json.dumps(row) for row in family["entries"])
        lines.append(f'    {head[:-1]},\n     "entries": [\n{rows}\n    ]}}')
    head = json.dumps({key: value for key, value in data.items() if key != "families"}, indent=2)[:-2]
    path.write_text(f'{head},\n  "families": [\n' + ",\n".join(lines) + "\n  ]\n}\n", encoding="utf-8")
    print(f"{path.name}: {sum(len(f['entries']) for f in data['families'])} entries")


def transfer_bands(tables: list[Table]) -> dict[tuple[str, str], tuple[float, float]]:
    """(median, p90) by (operator, state), tested by leaving GPUs or whole families out."""
    bands: dict[tuple[str, str], tuple[float, float]] = {}
    for operator in {t.operator for t in tables}:
        ours = [t for t in tables if t.operator == operator]
        for state, with_sibling in (("sibling", True), ("extrapolated", False)):
            bands[operator, state] = median_quantiles(transfer_errors(ours, with_sibling)) or UNTESTED[state]
    return bands


def family_entries(first: dict, bands: dict, family: str) -> list[dict]:
    """One row per (operator, format, engine) that the family, or those it leans on, has tables of, and one for any engine."""
    leaned_on = UNMEASURED.get(family, (family,))
    members = [gpu for name in leaned_on for gpu in FAMILIES[name]]
    rows = []
    for operator, format in sorted({(o, f) for gpu, o, f, _ in first if gpu in members}):
        engines = {e for gpu, o, f, e in first if gpu in members and (o, f) == (operator, format)}
        preferred = next(e for e in ENGINE_ORDER if e in engines)
        for engine, source in ((ANY, preferred), *((e, e) for e in sorted(engines - {preferred}))):
            if family in FAMILIES:
                parameters = family_parameters(first, family, operator, format, source)
            else:
                parameters = stranger_parameters(first, list(leaned_on), operator, format, source)
            row = {
                "operator": operator,
                "format": format,
                "engine": engine,
                "parameters": {name: float(f"{value:.4g}") for name, value in parameters.items()},
                "extrapolated_error": [round(x, 3) for x in bands[operator, "extrapolated"]],
                "provenance": {
                    "mean_of": ", ".join(f"{gpu} {source}" for gpu in members if (gpu, operator, format, source) in first)
                },
            }
            if family in FAMILIES:
                row["sibling_error"] = [round(x, 3) for x in bands[operator, "sibling"]]
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
