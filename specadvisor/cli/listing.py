"""What ``gpus``, ``models`` and ``drafters`` share: one listing or one item in any format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specadvisor.cli import options as opt

if TYPE_CHECKING:
    from specadvisor.report.tables import Block


def emit_rows(rows: Sequence[Mapping[str, Any]], blocks: Callable[[], list[Block]], format: str, output: Path | None) -> None:
    """``rows`` as JSON or CSV, ``blocks`` as table or Markdown."""
    if format == "json":
        from specadvisor.report.data import SCHEMA_VERSION, plain
        from specadvisor.report.writers import json_text

        return opt.emit(json_text({"schema_version": SCHEMA_VERSION, "rows": plain(list(rows))}), output)
    if format == "csv":
        from specadvisor.report.writers import csv_text

        return opt.emit(csv_text(rows), output)
    opt.emit_blocks(blocks(), format, output)
