"""CSV and JSON text, and where it goes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specadvisor.data_files import write_atomically
from specadvisor.errors import InputError
from specadvisor.report.data import column_names


def json_text(data: Mapping[str, Any]) -> str:
    """Indented JSON; refuses nan and infinity, which are not JSON."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, floats with six significant digits, missing and nan empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = column_names(rows)
    writer.writerow(names)
    writer.writerows([[_cell(row.get(name)) for name in names] for row in rows])
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None else value


def write(path: Path, text: str) -> None:
    """Write the whole file or nothing; raises ``InputError`` where the place cannot be written."""
    try:
        write_atomically(path, text)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or ""
        raise InputError("output", str(path), "a path that can be written", why) from error
