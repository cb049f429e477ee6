"""Timing the kernels of installed engines, in this process.

The packages are other people's and move fast: whatever they raise becomes a note, and their kernels count as not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specadvisor.calibration.collectives import ALL_REDUCES, CALLS, measure_all_reduce
from specadvisor.calibration.engine_attention import check_kernel
from specadvisor.calibration.engine_moe import MOE_KERNELS, MoePoint, check_moe_kernel, random_experts, random_routing
from specadvisor.calibration.engine_plan import attention_kernel, chosen
from specadvisor.calibration.engine_weights import W4A16_KERNELS, Quantised, check_weight_kernel
from specadvisor.calibration.operands import MEMORY_SHARE
from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Section
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.timing import Effort, Timing, rotation
from specadvisor.calibration.torch_timing import measure_torch

_EFFORT = Effort(budget_s=0.08)
_DISTRIBUTIONS = {
    "vllm.vllm_flash_attn": ("vllm",),
    "flashinfer": ("flashinfer-python",),
    "sgl_kernel": ("sgl-kernel", "sglang-kernel"),
}
MOE_ROUTINGS, MOE_COPIES = 8, 2
# Packing a weight takes the engine far longer than copying one; enough for 34 MB beside 126 MB of cache.
MOST_WEIGHTS = 32


def measure_section(
    section: Section, step: Callable[[], None], engine: str, capability: int, l2_bytes: int
) -> tuple[list[Row], list[str]]:
    """(rows, notes); a package that fails leaves a note, and the rows it gave before."""
    rows: list[Row] = []
    notes: list[str] = []
    try:
        import torch

        if section.name.startswith("engine attention"):
            _attention(torch, section.points, step, engine, capability, l2_bytes, rows, notes)
        elif section.name == "engine w4a16":
            _weights(torch, section.points, step, engine, capability, l2_bytes, rows)
        elif section.name == "engine moe":
            _moe(torch, section.points, step, engine, capability, rows, notes)
        else:
            _all_reduce(section.points, step, rows, notes)
    except Exception as error:
        notes.append(f"{section.name}: not measured further, {_told(error)}")
    return rows, list(dict.fromkeys(notes))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[-200:]}"


def _version(module: str) -> str:
    for name in _DISTRIBUTIONS.get(module, (module.partition(".")[0].replace("_", "-"),)):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return module


def _facts(kernel: Any) -> dict[str, str]:
    return {"engine": kernel.engine, "kernel": kernel.name, "engine_version": _version(kernel.module)}


def _has_room(torch: Any, size: float) -> bool:
    torch.cuda.empty_cache()  # what torch keeps for later does not count as free
    return bool(size <= MEMORY_SHARE * torch.cuda.mem_get_info()[0])


def _attention(
    torch: Any,
    points: tuple[AttentionPoint, ...],
    step: Callable[[], None],
    engine: str,
    capability: int,
    l2_bytes: int,
    rows: list[Row],
    notes: list[str],
) -> None:
    kernel = attention_kernel(engine, capability, points[0].kv_format)
    if kernel is None:
        return
    for head_dim in dict.fromkeys(p.head_dim for p in points):
        check_kernel(torch, kernel, head_dim, points[0].kv_format)
    for point in points:
        step()
        sets = rotation(point.cache_bytes, l2_bytes)
        if not _has_room(torch, sets * point.cache_bytes):
            notes.append(f"{kernel.name}, batch {point.batch} x {point.context} keys: not measured, too little free memory")
            continue
        timing = measure_torch(torch, kernel.calls(torch, point, sets), sets, _EFFORT)
        shape = {"batch": point.batch, "query_tokens": point.query_tokens, "context": point.context, "sets": sets}
        heads = {"heads": point.kv_heads * point.group, "kv_heads": point.kv_heads, "head_dim": point.head_dim}
        tile = {"page_size": kernel.page, "tile_rows": kernel.tile_rows(point.rows, point.head_dim)}
        auto = kernel.packs or point.query_tokens == 1
        rows.append(row("attention", point.kv_format, timing, auto=auto, **_facts(kernel), **shape, **heads, **tile))


def _weights(
    torch: Any,
    points: tuple[GemmPoint, ...],
    step: Callable[[], None],
    engine: str,
    capability: int,
    l2_bytes: int,
    rows: list[Row],
) -> None:
    kernel = chosen(W4A16_KERNELS, engine, capability)
    if kernel is None:
        return
    check_weight_kernel(torch, kernel)
    for n, k in dict.fromkeys((p.n, p.k) for p in points):
        sets = rotation(n * k / 2, l2_bytes, limit=MOST_WEIGHTS)
        products = [kernel.prepare(Quantised.random(torch, n, k)) for _ in range(sets)]
        for point in (p for p in points if (p.n, p.k) == (n, k)):
            step()
            x = torch.randn((point.m, k), dtype=torch.bfloat16, device="cuda")
            timing = measure_torch(torch, partial(_multiply, products, x), sets, _EFFORT)
            rows.append(row("gemm", "w4a16", timing, **_facts(kernel), m=point.m, n=n, k=k, sets=sets))


def _multiply(products: list[Callable[[Any], Any]], x: Any, i: int) -> Any:
    return products[i](x)


def _moe(
    torch: Any,
    points: tuple[MoePoint, ...],
    step: Callable[[], None],
    engine: str,
    capability: int,
    rows: list[Row],
    notes: list[str],
) -> None:
    kernel = chosen(MOE_KERNELS, engine, capability)
    if kernel is None:
        return
    check_moe_kernel(torch, kernel)
    mix = kernel.load()
    for shape in dict.fromkeys(p.shape for p in points):
        here = [p for p in points if p.shape == shape]
        if not _has_room(torch, MOE_COPIES * here[0].weight_bytes):
            notes.append(f"{kernel.name}, {shape[2]} experts of {shape[0]} x {shape[1]}: not measured, too little free memory")
            continue
        hidden, intermediate, experts, top_k = shape
        copies = [random_experts(torch, experts, hidden, intermediate) for _ in range(MOE_COPIES)]
        for p in here:
            step()
            x = torch.randn((p.tokens, hidden), dtype=torch.bfloat16, device="cuda")
            routings = [random_routing(torch, p.tokens, experts, top_k) for _ in range(MOE_ROUTINGS)]
            timing = measure_torch(torch, partial(_mix, mix, x, copies, routings), MOE_ROUTINGS, _EFFORT)
            facts = {"tokens": p.tokens, "hidden": hidden, "intermediate": intermediate, "experts": experts, "top_k": top_k}
            rows.append(row("moe", "bf16", timing, **_facts(kernel), sets=MOE_ROUTINGS, **facts))


def _mix(mix: Callable[..., Any], x: Any, copies: list[Any], routings: list[Any], i: int) -> Any:
    return mix(x, copies[i % len(copies)], routings[i])


def _all_reduce(runs: tuple[tuple[str, int], ...], step: Callable[[], None], rows: list[Row], notes: list[str]) -> None:
    for engine, ranks in runs:
        step()
        module, kernel, _ = ALL_REDUCES[engine]
        facts: dict[str, Any] = {"engine": engine, "kernel": kernel, "engine_version": _version(module), "ranks": ranks}
        try:
            measured = measure_all_reduce(engine, ranks)
        except Exception as error:  # one engine's failure must not cost the others' rows
            notes.append(f"all-reduce of {engine} over {ranks} GPUs: not measured, {_told(error)}")
            continue
        for size, seconds in measured:
            rows.append(row("all_reduce", "any", Timing.of(seconds, CALLS, True), **facts, bytes=size))
