"""A calibration onto an older one: what it did not measure stays, if the machine is still the same."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specadvisor.calibration.freshness import saved_conditions
from specadvisor.calibration.rows import COLUMNS
from specadvisor.data_files import user_dir
from specadvisor.errors import InputError
from specadvisor.hardware.kernel_profile import ANY, KernelEntry, KernelProfile, read_kernel_profile
from specadvisor.kernels.parameters import format_family

Key = tuple[str, str, str]
# What must agree for old times to stand beside new ones; of the second kind, where both runs know it.
_SAME, _SAME_IF_KNOWN = ("device", "driver"), ("cublas", "blas", "threads")


@dataclass(frozen=True)
class Merged:
    """The profile with the old entries that stay, the CSV lines they were fitted from, and what the user should know."""

    profile: KernelProfile
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def check_target(path: Path, gpu_id: str) -> None:
    """Raise ``InputError`` if profile or table at ``path`` are not ours to replace: another format, or another GPU's."""
    if path.is_file():
        data = _json(path)
        if data is None and path.is_relative_to(user_dir()):
            return  # a damaged calibration of ours: measuring again is the way to repair it
        if not isinstance(data, dict) or not {"gpu", "entries"} <= set(data):
            hint = "This file is something else; it stays as it is."
            raise InputError("out", str(path), "a new file or a kernel profile", hint)
        if str(data["gpu"]).lower() != gpu_id.lower():
            hint = f"This is the profile of {data['gpu']}; it stays as it is."
            raise InputError("out", str(path), f"a new file or a profile of {gpu_id}", hint)
    table = path.with_suffix(".csv")
    if table.is_file() and not {"operator", "us"} <= set(_lines(table)[0]):
        hint = "This file is no table of measurements; it stays as it is."
        raise InputError("out", str(table), "a place for the table of measurements beside the profile", hint)


def merged(path: Path, profile: KernelProfile, conditions: Mapping[str, Any]) -> Merged:
    """``profile`` with what the calibration at ``path`` has beyond it. Nothing is read where there is none."""
    if not path.is_file():
        return Merged(profile, (), ())
    try:
        old = read_kernel_profile(path).entries
    except InputError as error:
        return Merged(profile, (), (f"the calibration before this one could not be read and was replaced: {error}",))
    new = {_key(e) for e in profile.entries}
    beyond = tuple(e for e in old if _key(e) not in new)
    notes = [note for note in (_replaced(old, profile.entries),) if note]
    if not beyond:
        return Merged(profile, (), tuple(notes))
    before = saved_conditions(path)
    changed = [k for k in _SAME if before.get(k, "") != conditions.get(k, "")]
    changed += [k for k in _SAME_IF_KNOWN if before.get(k) and conditions.get(k) and before[k] != conditions[k]]
    names = ", ".join(dict.fromkeys(" ".join(_key(e)) for e in beyond))
    if changed:
        moved = ", ".join(f"{k} {before.get(k) or 'not stated'} -> {conditions.get(k) or 'not stated'}" for k in changed)
        dropped = f"dropped from the calibration before, measured under other conditions ({moved}): {names}"
        return Merged(profile, (), (*notes, dropped))
    kept = replace(profile, entries=tuple(sorted((*profile.entries, *beyond), key=lambda e: e.engine == ANY)))
    lines = _rows_of(path.with_suffix(".csv"), {_key(e) for e in beyond})
    return Merged(kept, lines, (*notes, f"kept from the calibration before, not measured this time: {names}"))


def with_lines(table: str, lines: Sequence[str]) -> str:
    """The CSV ``table`` with the old ``lines`` that it does not hold, if it has their columns."""
    present = set(table.splitlines(keepends=True))
    if ",".join(COLUMNS) + "\n" not in present:
        return table
    return table + "".join(line for line in lines if line not in present)


def _key(entry: KernelEntry) -> Key:
    return entry.operator, entry.format, entry.engine


def _replaced(old: Sequence[KernelEntry], new: Sequence[KernelEntry]) -> str:
    """A note on entries that now rest on fewer rows than before."""
    rows: dict[Key, list[int]] = {_key(e): [0, 0] for e in new}
    for side, entries in enumerate((old, new)):
        for e in entries:
            if _key(e) in rows:
                count = e.provenance.get("rows")
                rows[_key(e)][side] += count if isinstance(count, int) else 0
    fewer = [f"{' '.join(key)} (rows {before} -> {now})" for key, (before, now) in rows.items() if now < before]
    return f"replaced by a fit of fewer rows: {', '.join(fewer)}" if fewer else ""


def _rows_of(table: Path, keys: set[Key]) -> tuple[str, ...]:
    """The CSV lines behind these entries, where the old table has the columns of today's."""
    if not table.is_file():
        return ()
    rows = _lines(table)
    if tuple(rows[0]) != COLUMNS:
        return ()
    kept = []
    for cells in rows[1:]:
        row = dict(zip(COLUMNS, cells, strict=False))
        if (row["operator"], _family(row), row["engine"]) in keys:
            kept.append(cells)
    return tuple(_line(cells) for cells in kept)


def _family(row: Mapping[str, str]) -> str:
    try:
        return format_family(row["operator"], row["format"])
    except (InputError, KeyError):
        return row["format"]


def _lines(table: Path) -> list[list[str]]:
    """Cells of every line that is no comment; at least one line."""
    text = table.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    try:
        return list(csv.reader(line for line in text if line.strip() and not line.startswith("#"))) or [[]]
    except csv.Error:
        return [[]]


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
