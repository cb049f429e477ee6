"""``specadvisor flags``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.question import RankingQuestion, asks


@asks
def flags(
    question: RankingQuestion,
    drafter_path: Annotated[str | None, typer.Option(help="Checkpoint of the drafter, as the engine shall load it.")] = None,
    served_model: Annotated[str, typer.Option(help="Checkpoint of the target, as the engine shall load it.")] = "",
    output: opt.Output = None,
) -> None:
    """Settings to paste into vLLM, SGLang, TensorRT-LLM or llama.cpp for a recommendation."""
    from specadvisor.engines import emitter

    emitter(question.engine)
    result = question.advisor().recommend(question.loads(), **question.load())
    text = result.flags(model=served_model, drafter_path=drafter_path)
    for line in result.headline:
        opt.note(line)
    opt.emit(text.rstrip("\n") + "\n", output)
