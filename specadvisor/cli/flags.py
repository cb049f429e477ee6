"""``specadvisor flags``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt


def flags(
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
    acceptance: opt.Acceptance = None,
    drafter_path: Annotated[str | None, typer.Option(help="Checkpoint of the drafter, as the engine shall load it.")] = None,
    served_model: Annotated[str, typer.Option(help="Checkpoint of the target, as the engine shall load it.")] = "",
    output: opt.Output = None,
) -> None:
    """Settings to paste into vLLM, SGLang, TensorRT-LLM or llama.cpp for a recommendation."""
    advisor = opt.make_advisor(
        model, gpu, engine, engine_version, tp, ep, dp, weights, kv, power_limit, memory_fraction, kv_pool
    )
    result = advisor.recommend(
        opt.numbers("concurrency", concurrency), input_tokens, output_tokens, context=context, workload=workload,
        temperature=temperature, drafters=drafter or None, acceptance=acceptance or None,
    )  # fmt: skip
    for line in result.headline:
        opt.note(line)
    opt.emit(result.flags(model=served_model, drafter_path=drafter_path).rstrip("\n") + "\n", output)
