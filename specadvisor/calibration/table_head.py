"""The head of a table of measurements: which GPU its rows are from and how they were measured, as comment lines of the CSV.

    # specadvisor measurements
    # gpu: "h200_sxm"
    # conditions: {"driver": "580.65.06", ...}

Each value is JSON on one line. ``datasheet`` is there for a GPU outside the catalogue, which only its own facts describe.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from specadvisor.errors import InputError

TITLE = "# specadvisor measurements"


@dataclass(frozen=True)
class Head:
    """Id of the measured GPU (empty: the table does not say), its facts where no catalogue has them, conditions and notes."""

    gpu: str = ""
    datasheet: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def head_text(head: Head) -> str:
    """The comment lines; what is empty is left out."""
    values = {"gpu": head.gpu, "datasheet": head.datasheet, "conditions": head.conditions, "notes": head.notes}
    lines = [f"# {name}: {json.dumps(value, default=str)}" for name, value in values.items() if value]
    return "\n".join([TITLE, *lines]) + "\n"


def read_head(text: str, where: str) -> Head:
    """The head of a CSV's text; an empty one where the file does not begin with it. Raises ``InputError`` for a damaged one."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != TITLE:
        return Head()
    kinds: dict[str, type] = {"gpu": str, "datasheet": dict, "conditions": dict, "notes": list}
    found: dict[str, Any] = {}
    for number, line in enumerate(lines[1:], 2):
        name, separator, value = line.removeprefix("#").strip().partition(":")
        if not line.startswith("#") or not separator or name not in kinds:
            break
        try:
            found[name] = json.loads(value)
        except ValueError as error:
            raise InputError(f"{where}: {name} in line {number}", value.strip()[:60], "JSON on one line", str(error)) from error
        if not isinstance(found[name], kinds[name]):
            raise InputError(f"{where}: {name} in line {number}", value.strip()[:60], f"a JSON {kinds[name].__name__}")
    return Head(**found)
