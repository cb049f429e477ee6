"""What the installed packages of an engine add to a calibration's plan; needs no GPU."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from specadvisor.calibration.collectives import ALL_REDUCES, NCCL
from specadvisor.calibration.engine_attention import KERNELS, EngineKernel
from specadvisor.calibration.engine_moe import MOE_KERNELS, MoePoint
from specadvisor.calibration.engine_weights import W4A16_KERNELS
from specadvisor.calibration.plan import GemmPoint, Plan, Section

_POINT_S, _SETUP_S, _PROCESSES_S = 0.15, 3.0, 25.0
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
    """``plan`` and what the installed packages of ``engine`` add to it."""
    sections = list(plan.sections)
    points = {s.name: s.points for s in plan.sections}
    for kv_format in ("bf16", "fp8"):
        here = points.get(f"attention {kv_format}", ())
        if here and attention_kernel(engine, capability, kv_format):
            splitting = tuple(p for p in here if p.split)
            sections.append(_section(f"engine attention {kv_format}", splitting))
    if quick:
        return Plan(tuple(sections))
    if chosen(W4A16_KERNELS, engine, capability):
        weights = tuple(GemmPoint("w4a16", m, n, k) for n, k in W4A16_SHAPES for m in W4A16_ROWS)
        sections.append(_section("engine w4a16", weights))
    if chosen(MOE_KERNELS, engine, capability):
        sections.append(_section("engine moe", MOE_POINTS))
    if installed("torch") and (gpus := _visible_gpus()) > 1:
        runs = tuple((name, ranks) for ranks in _groups(gpus) for name in _reducers(engine))
        sections.append(Section("all-reduce", "engine", runs, len(runs) * _PROCESSES_S))
    return Plan(tuple(sections))


def _section(name: str, points: tuple[Any, ...]) -> Section:
    return Section(name, "engine", points, len(points) * _POINT_S + _SETUP_S)


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
