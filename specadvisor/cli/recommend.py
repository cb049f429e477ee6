"""``specadvisor recommend``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.question import RankingQuestion, asks


@asks
def recommend(
    question: RankingQuestion,
    gpu_price: Annotated[
        float | None, typer.Option(help="Price of a GPU hour, for the break-even of training a drafter.")
    ] = None,
    train_gpu_hours: Annotated[float | None, typer.Option(help="GPU hours that training the drafter takes.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the five guidelines at every load.")] = False,
    format: opt.Format = "table",
    output: opt.Output = None,
    plot: opt.Plot = None,
) -> None:
    """Which drafter and how many draft tokens, per concurrency, with range, reasons and cost."""
    result = question.advisor().recommend(
        question.loads(),
        **question.load(),
        gpu_price=gpu_price,
        train_gpu_hours=train_gpu_hours,
        command=opt.command_line(),
    )
    if plot is not None:
        for path in result.plot(plot):
            opt.note(f"drawn {path}")
    if format == "json":
        from specadvisor.report.writers import json_text

        return opt.emit(json_text(result.to_dict()), output)
    if format == "csv":
        return opt.emit(result.to_csv(), output)
    from specadvisor.report.tables import recommendation_blocks

    opt.emit_blocks(recommendation_blocks(result, all_guidelines=explain), format, output)
