"""``specadvisor explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.question import Question, asks, one
from specadvisor.errors import InputError


@asks
def explain(
    question: Question,
    k: Annotated[int, typer.Option("-k", "--k", help="Draft tokens per round; 0 explains the plain step.")],
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """The trace of one point: time by component, the five guidelines, formulas and sources."""
    if format == "csv":
        raise InputError("--format", format, "table, json or md for a trace", "For numbers by point use specadvisor sweep.")
    if not question.drafter or len(question.drafter) > 1:
        raise InputError("--drafter", question.drafter, "one drafter for a trace, such as --drafter eagle3")
    result = question.advisor().explain(
        question.drafter[0],
        k,
        one("--concurrency", question.concurrency) or 1,
        context=question.one_context(),
        **question.load(),
    )
    if format == "json":
        from specadvisor.report.writers import json_text

        return opt.emit(json_text(result.to_dict()), output)
    from specadvisor.report.tables import explanation_blocks

    opt.emit_blocks(explanation_blocks(result), format, output)
