"""``specadvisor explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.errors import InputError


def explain(
    model: opt.Model,
    gpu: opt.GpuId,
    drafter: opt.OneDrafter,
    k: Annotated[int, typer.Option("-k", "--k", help="Draft tokens per round; 0 explains the plain step.")],
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="Requests in flight.")] = 1,
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
    input_tokens: opt.InputTokens = None,
    output_tokens: opt.OutputTokens = None,
    context: opt.Context = None,
    workload: opt.Workload = "mixed",
    temperature: opt.Temperature = 0.0,
    modifiers: opt.Modifiers = None,
    acceptance: opt.Acceptance = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """The trace of one point: time by component, the five guidelines, formulas and sources."""
    opt.check_format(format)
    advisor = opt.make_advisor(
        model, gpu, engine, engine_version, tp, ep, dp, weights, kv, power_limit, memory_fraction, kv_pool
    )
    result = advisor.explain(
        drafter, k, concurrency, input_tokens, output_tokens, context=context, workload=workload, temperature=temperature,
        acceptance=acceptance or None, modifiers=modifiers or (),
    )  # fmt: skip
    if format == "json":
        from specadvisor.report.writers import json_text

        return opt.emit(json_text(result.to_dict()), output)
    if format == "csv":
        raise InputError("format", format, "table, json or md for a trace", "For numbers by point use specadvisor sweep.")
    from specadvisor.report.tables import explanation_blocks

    opt.emit_blocks(explanation_blocks(result), format, output)
