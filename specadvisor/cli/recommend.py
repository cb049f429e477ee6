"""``specadvisor recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specadvisor.cli import options as opt


def recommend(
    model: opt.Model,
    gpu: opt.GpuId,
    engine: opt.Engine = "vllm",
    engine_version: opt.EngineVersion = None,
    tp: opt.Tp = 1,
    ep: opt.Ep = 1,
    dp: opt.Dp = 1,
    weights: opt.Weights = None,
    kv: opt.Kv = None,
    power_limit: opt.PowerLimit = None,
    memory_fraction: opt.MemoryFraction = None,
    kv_pool: opt.KvPool = None,
    concurrency: opt.Concurrency = None,
    input_tokens: opt.InputTokens = None,
    output_tokens: opt.OutputTokens = None,
    context: opt.Context = None,
    workload: opt.Workload = "mixed",
    temperature: opt.Temperature = 0.0,
    drafter: opt.DrafterNames = None,
    modifiers: opt.Modifiers = None,
    acceptance: opt.Acceptance = None,
    objective: Annotated[
        str, typer.Option(help="throughput, latency or goodput.", autocompletion=opt.offer(opt.OBJECTIVES))
    ] = "throughput",
    max_tpot: Annotated[float | None, typer.Option(help="Largest time per output token in ms (goodput).")] = None,
    max_ttft: Annotated[float | None, typer.Option(help="Largest time to first token in ms (goodput).")] = None,
    anchor: Annotated[
        list[str] | None, typer.Option(help='Measured point, such as "concurrency=1,k=3,speedup=1.9"; may be repeated.')
    ] = None,
    gpu_price: Annotated[
        float | None, typer.Option(help="Price of a GPU hour, for the break-even of training a drafter.")
    ] = None,
    train_gpu_hours: Annotated[float | None, typer.Option(help="GPU hours that training the drafter takes.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the five guidelines at every load.")] = False,
    format: opt.Format = "table",
    output: opt.Output = None,
    plot: Annotated[Path | None, typer.Option(help="Draw roofline, speed-up curves and heat map into this directory.")] = None,
) -> None:
    """Which drafter and how many draft tokens, per concurrency, with range, reasons and cost."""
    opt.check_format(format)
    advisor = opt.make_advisor(
        model, gpu, engine, engine_version, tp, ep, dp, weights, kv, power_limit, memory_fraction, kv_pool
    )
    result = advisor.recommend(
        opt.numbers("concurrency", concurrency),
        input_tokens,
        output_tokens,
        context=context,
        workload=workload,
        temperature=temperature,
        drafters=drafter or None,
        acceptance=acceptance or None,
        objective=objective,
        max_tpot_s=None if max_tpot is None else max_tpot / 1e3,
        max_ttft_s=None if max_ttft is None else max_ttft / 1e3,
        modifiers=modifiers or (),
        anchors=anchor or (),
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
        from specadvisor.report.data import option_rows
        from specadvisor.report.writers import csv_text

        return opt.emit(csv_text(option_rows(result.ranking)), output)
    from specadvisor.report.tables import recommendation_blocks

    opt.emit_blocks(recommendation_blocks(result, all_guidelines=explain), format, output)
