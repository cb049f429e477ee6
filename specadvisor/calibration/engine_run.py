"""Which kernels of installed engines a calibration times beside its own, and doing it.

The packages are other people's and move fast: whatever they raise becomes a note, and their kernels count as not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from specadvisor.calibration.collectives import SIZES, measure_all_reduce
from specadvisor.calibration.engine_attention import KERNELS, EngineKernel, check_kernel, make_operands
from specadvisor.calibration.engine_weights import MoePoint, fused_moe, marlin, routing
from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Plan, Section
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.timing import Effort, Timing, rotation
from specadvisor.calibration.torch_timing import measure_torch

_EFFORT = Effort(budget_s=0.08)
_POINT_S, _SETUP_S = 0.15, 3.0
_DISTRIBUTIONS = {"vllm.vllm_flash_attn": "vllm", "flashinfer": "flashinfer-python", "sgl_kernel": "sgl-kernel"}
MOE_POINTS = tuple(MoePoint(t, 2048, 768, 128, 8) for t in (1, 2, 4, 8, 16, 32, 64, 128, 256))
MARLIN_SHAPES = ((4096, 16384), (16384, 4096))


def installed(module: str) -> bool:
    """Whether ``module`` could be imported; importing an engine takes seconds, so only its package is looked up."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def attention_kernel(engine: str, capability: int) -> EngineKernel | None:
    """The attention kernel of ``engine`` on this GPU whose package is installed; ``None`` leaves our own as stand-in."""
    for kernel in KERNELS:
        fits = kernel.engine == engine and kernel.capabilities[0] <= capability <= kernel.capabilities[1]
        if fits and installed("torch") and installed(kernel.module):
            return kernel
    return None


def with_engine_sections(plan: Plan, engine: str, capability: int, quick: bool = False) -> Plan:
    """``plan`` and what the installed packages of ``engine`` add to it."""
    sections = list(plan.sections)
    if attention_kernel(engine, capability):
        points = next(s.points for s in plan.sections if s.name == "attention bf16")[: 8 if quick else 48]
        sections.append(_section("engine attention", points))
    if engine == "vllm" and installed("vllm") and installed("torch") and not quick:
        weights = tuple(GemmPoint("w4a16", m, n, k) for n, k in MARLIN_SHAPES for m in (1, 4, 8, 16, 17, 32, 64, 65, 128, 256))
        sections += [_section("engine w4a16", weights), _section("engine moe", MOE_POINTS)]
    if installed("torch") and not quick and _visible_gpus() > 1:
        sections.append(_section("all-reduce", SIZES))
    return Plan(tuple(sections))


def _section(name: str, points: tuple[Any, ...]) -> Section:
    return Section(name, "engine", points, len(points) * _POINT_S + _SETUP_S)


def _visible_gpus() -> int:
    from specadvisor.calibration import driver
    from specadvisor.errors import SpecadvisorError

    try:
        return driver.initialise()
    except SpecadvisorError:
        return 0


def measure_engine_section(
    section: Section, step: Callable[[], None], engine: str, capability: int, l2_bytes: int
) -> tuple[list[Row], list[str]]:
    """(rows, notes); a package that fails leaves a note, and the rows it gave before."""
    rows: list[Row] = []
    try:
        import torch

        if section.name == "engine attention":
            _attention(torch, section, step, engine, capability, l2_bytes, rows)
        elif section.name == "engine w4a16":
            _marlin(torch, section, step, l2_bytes, rows)
        elif section.name == "engine moe":
            _moe(torch, section, step, l2_bytes, rows)
        else:
            step()
            _all_reduce(torch, rows)
    except Exception as error:
        return rows, [f"{section.name}: not measured further, {type(error).__name__}: {' '.join(str(error).split())[:200]}"]
    return rows, []


def _version(module: str) -> str:
    name = _DISTRIBUTIONS.get(module, module.partition(".")[0].replace("_", "-"))
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def _attention(
    torch: Any, section: Section, step: Callable[[], None], engine: str, capability: int, l2_bytes: int, rows: list[Row]
) -> None:
    kernel = attention_kernel(engine, capability)
    if kernel is None:
        return
    check_kernel(torch, kernel, 128, capability)
    points: tuple[AttentionPoint, ...] = section.points
    for point in points:
        step()
        sets = rotation(point.cache_bytes, l2_bytes)
        call = kernel.prepare(make_operands(torch, point, sets), capability)
        timing = measure_torch(torch, call, sets, _EFFORT)
        shape = {"batch": point.batch, "query_tokens": point.query_tokens, "context": point.context, "sets": sets}
        heads = {"heads": point.kv_heads * point.group, "kv_heads": point.kv_heads, "head_dim": point.head_dim}
        rows.append(
            row(
                "attention",
                "bf16",
                timing,
                engine=engine,
                kernel=kernel.name,
                engine_version=_version(kernel.module),
                auto=kernel.packs or point.query_tokens == 1,
                tile_rows=kernel.tile_rows(point.rows),
                **shape,
                **heads,
            )
        )


def _multiply(run: Callable[..., Any], x: Any, weights: list[Any], i: int) -> Any:
    return run(x, weights[i])


def _mix(run: Callable[..., Any], x: Any, weights: list[Any], chosen: list[Any], i: int) -> Any:
    return run(x, weights[i % len(weights)], *chosen[i])


def _marlin(torch: Any, section: Section, step: Callable[[], None], l2_bytes: int, rows: list[Row]) -> None:
    points: tuple[GemmPoint, ...] = section.points
    for n, k in dict.fromkeys((p.n, p.k) for p in points):
        run, make = marlin(torch, n, k)
        weights = [make() for _ in range(rotation(n * k / 2, l2_bytes, limit=16))]
        for point in (p for p in points if (p.n, p.k) == (n, k)):
            step()
            x = torch.randn(point.m, k, dtype=torch.bfloat16, device="cuda")
            timing = measure_torch(torch, partial(_multiply, run, x, weights), len(weights), _EFFORT)
            facts = {"m": point.m, "n": n, "k": k, "sets": len(weights)}
            rows.append(row("gemm", "w4a16", timing, engine="vllm", kernel="Marlin", engine_version=_version("vllm"), **facts))


def _moe(torch: Any, section: Section, step: Callable[[], None], l2_bytes: int, rows: list[Row]) -> None:
    points: tuple[MoePoint, ...] = section.points
    run, make = fused_moe(torch, points[0])
    weights = [make() for _ in range(2)]
    for p in points:
        step()
        x = torch.randn(p.tokens, p.hidden, dtype=torch.bfloat16, device="cuda")
        chosen = [routing(torch, p.tokens, p.experts, p.top_k) for _ in range(8)]
        timing = measure_torch(torch, partial(_mix, run, x, weights, chosen), len(chosen), _EFFORT)
        facts = {"tokens": p.tokens, "hidden": p.hidden, "intermediate": p.intermediate, "experts": p.experts, "top_k": p.top_k}
        rows.append(
            row("moe", "bf16", timing, engine="vllm", kernel="fused_experts", engine_version=_version("vllm"), sets=8, **facts)
        )


def _all_reduce(torch: Any, rows: list[Row]) -> None:
    ranks = torch.cuda.device_count()
    for size, seconds in measure_all_reduce(ranks):
        timing = Timing.of(seconds, 1, True)
        facts: dict[str, Any] = {"bytes": size, "ranks": ranks, "kernel": "NCCL"}
        rows.append(row("all_reduce", "any", timing, engine="nccl", engine_version=_version("torch"), **facts))
