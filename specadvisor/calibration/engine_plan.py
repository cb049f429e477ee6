"""What the installed packages of an engine add to a calibration's plan; needs no GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from typing import Protocol, TypeVar

from specadvisor.calibration.collectives import ALL_REDUCES, NCCL
from specadvisor.calibration.engine_attention import KERNELS, EngineKernel
from specadvisor.calibration.engine_moe import MOE_KERNELS, MoePoint
from specadvisor.calibration.engine_weights import W4A16_KERNELS
from specadvisor.calibration.plan import EDGE_ROWS, RANKS, Chunk, GemmPoint, Plan, plan_within

_POINT_S, _SETUP_S, _PROCESSES_S = 0.15, 3.0, 25.0
# As ``plan.RANKS``: ranks of our own attention where the engine's is timed (a few steps to see the tiles, the rest last), of
# 4-bit weights, mixtures, and of all-reduce: the engine's own over most GPUs first, the others at the very end.
_STAND_IN_RANKS = {"attention bf16": (6.5, 18.0, 19.0), "attention fp8": (20.0, 21.0, 22.0)}
_WEIGHTS, _MOE, _ALL_REDUCE, _MORE_ALL_REDUCE = 11.0, 11.5, 4.5, 23.0
W4A16_ROWS = (1, 4, 8, 16, 17, 32, 64, 65, 128, 256)
W4A16_SHAPES = ((4096, 16384), (16384, 4096), (8192, 8192))
MOE_POINTS = tuple(
    MoePoint(tokens, *shape)
    for shape, steps in (((2048, 768, 128, 8), 1), ((2048, 1024, 64, 8), 2), ((4096, 768, 128, 8), 2))
    for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256)[::steps]
)


class _Kernel(Protocol):
    @property
    def engine(self) -> str: ...
    @property
    def module(self) -> str: ...
    @property
    def capabilities(self) -> tuple[int, int]: ...


K = TypeVar("K", bound=_Kernel)


def installed(module: str) -> bool:
    """Whether the package of ``module`` is there; importing an engine takes seconds, so it is only looked up."""
    try:
        return find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def chosen(kernels: Iterable[K], engine: str, capability: int) -> K | None:
    """The first kernel of ``engine`` on this GPU whose package is installed."""
    for kernel in kernels:
        fits = kernel.engine == engine and kernel.capabilities[0] <= capability <= kernel.capabilities[1]
        if fits and installed("torch") and installed(kernel.module):
            return kernel
    return None


def attention_kernel(engine: str, capability: int, kv_format: str = "bf16") -> EngineKernel | None:
    """The attention kernel of ``engine`` on this GPU whose package is installed; ``None`` leaves our own as stand-in."""
    return chosen((k for k in KERNELS if kv_format in k.formats), engine, capability)


def with_engine_sections(plan: Plan, engine: str, capability: int, quick: bool = False) -> Plan:
    """``plan`` and what the installed packages of ``engine`` add to it, within the same time."""
    chunks = list(plan.chunks)
    for kv_format in ("bf16", "fp8"):
        name = f"attention {kv_format}"
        own = [(i, chunk) for i, chunk in enumerate(chunks) if chunk.section == name]
        if not own or not attention_kernel(engine, capability, kv_format):
            continue
        for tier, (i, chunk) in enumerate(own):
            setup_s = _SETUP_S if tier == 0 else 0.0
            chunks.append(Chunk(RANKS[name][tier], f"engine {name}", "engine", chunk.points, _POINT_S, setup_s))
            chunks[i] = replace(chunk, rank=_STAND_IN_RANKS[name][tier])
    if not quick:
        chunks += _more_chunks(engine, capability)
    return plan_within(chunks, plan.limit_s, plan.other_s) if plan.chunks else plan


def _more_chunks(engine: str, capability: int) -> list[Chunk]:
    chunks = []
    if chosen(W4A16_KERNELS, engine, capability):
        rows = {shape: EDGE_ROWS if shape == W4A16_SHAPES[0] else W4A16_ROWS for shape in W4A16_SHAPES}
        weights = tuple(GemmPoint("w4a16", m, n, k) for (n, k), ms in rows.items() for m in ms)
        chunks.append(Chunk(_WEIGHTS, "engine w4a16", "engine", weights, _POINT_S, _SETUP_S))
    if chosen(MOE_KERNELS, engine, capability):
        chunks.append(Chunk(_MOE, "engine moe", "engine", MOE_POINTS, _POINT_S, _SETUP_S))
    if installed("torch") and (gpus := _visible_gpus()) > 1:
        runs = tuple((name, ranks) for name in _reducers(engine) for ranks in reversed(_groups(gpus)))
        chunks.append(Chunk(_ALL_REDUCE, "all-reduce", "engine", runs[:1], _PROCESSES_S))
        if len(runs) > 1:
            chunks.append(Chunk(_MORE_ALL_REDUCE, "all-reduce", "engine", runs[1:], _PROCESSES_S))
    return chunks


def _groups(gpus: int) -> tuple[int, ...]:
    """Numbers of ranks to measure: the powers of two, which is how models are split."""
    return tuple(2**p for p in range(1, gpus.bit_length()) if 2**p <= gpus)


def _reducers(engine: str) -> tuple[str, ...]:
    own = engine if engine in ALL_REDUCES and installed(ALL_REDUCES[engine][0]) else None
    return (own, NCCL) if own else (NCCL,)


def _visible_gpus() -> int:
    from specadvisor.calibration import driver
    from specadvisor.errors import SpecadvisorError

    try:
        return driver.initialise()
    except SpecadvisorError:
        return 0
