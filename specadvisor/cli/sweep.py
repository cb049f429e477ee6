"""``specadvisor sweep``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.question import Question, asks, numbers
from specadvisor.errors import InputError

MOST_ROWS = 1000


@asks
def sweep(
    question: Question,
    k: Annotated[
        str | None,
        typer.Option("-k", "--k", help="Draft tokens: 3, 0,1,3 or 0..5 (every one; 0 is plain decoding); default: all."),
    ] = None,
    format: opt.Format = "csv",
    output: opt.Output = None,
) -> None:
    """The whole grid drafter x k x concurrency x context as tidy CSV, one row per point."""
    table = question.advisor().sweep(
        question.drafter or None,
        numbers("-k", k, every=True, lowest=0),
        question.loads(),
        numbers("--context", question.context),
        **question.load(),
    )
    if format == "csv":
        return opt.emit(table.to_csv(index=False, float_format="%.6g"), output)
    rows = table.to_dict("records")
    if format == "json":
        from specadvisor.report.data import SCHEMA_VERSION, plain
        from specadvisor.report.writers import json_text

        return opt.emit(json_text({"schema_version": SCHEMA_VERSION, "rows": plain(rows)}), output)
    if len(rows) > MOST_ROWS:
        raise InputError("--format", format, f"csv or json for more than {MOST_ROWS} points")
    from specadvisor.report.tables import Table

    cells = tuple(tuple(v if isinstance(v, str) else f"{v:.4g}" for v in row.values()) for row in rows)
    opt.emit_blocks([Table("Sweep", tuple(table.columns), cells, ("drafter",))], format, output)
