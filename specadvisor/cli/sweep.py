"""``specadvisor sweep``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.errors import InputError


def sweep(
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
    k: Annotated[
        str | None, typer.Option("-k", "--k", help="Draft tokens: 3, 0,1,3,5; default: every one, 0 included.")
    ] = None,
    concurrency: opt.Concurrency = None,
    context: Annotated[str | None, typer.Option(help="Keys a decode step sees: 2048 or 1024,8192,65536.")] = None,
    input_tokens: opt.InputTokens = None,
    output_tokens: opt.OutputTokens = None,
    workload: opt.Workload = "mixed",
    temperature: opt.Temperature = 0.0,
    drafter: opt.DrafterNames = None,
    modifiers: opt.Modifiers = None,
    acceptance: opt.Acceptance = None,
    format: opt.Format = "csv",
    output: opt.Output = None,
) -> None:
    """The whole grid drafter x k x concurrency x context as tidy CSV, one row per point."""
    opt.check_format(format)
    advisor = opt.make_advisor(
        model, gpu, engine, engine_version, tp, ep, dp, weights, kv, power_limit, memory_fraction, kv_pool
    )
    table = advisor.sweep(
        drafter or None,
        opt.numbers("k", k),
        opt.numbers("concurrency", concurrency),
        opt.numbers("context", context),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        acceptance=acceptance or None,
        workload=workload,
        temperature=temperature,
        modifiers=modifiers or (),
    )
    if format == "csv":
        return opt.emit(table.to_csv(index=False, float_format="%.6g"), output)
    rows = table.to_dict("records")
    if format == "json":
        from specadvisor.report.data import SCHEMA_VERSION, plain
        from specadvisor.report.writers import json_text

        return opt.emit(json_text({"schema_version": SCHEMA_VERSION, "rows": plain(rows)}), output)
    if len(rows) > 1000:
        raise InputError("format", format, "csv or json for more than 1000 points")
    from specadvisor.report.tables import Table

    cells = tuple(tuple(v if isinstance(v, str) else f"{v:.4g}" for v in row.values()) for row in rows)
    opt.emit_blocks([Table("Sweep", tuple(table.columns), cells, ("drafter",))], format, output)
