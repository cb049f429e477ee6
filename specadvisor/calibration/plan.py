"""What a calibration measures and about how long it takes; needs no GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specadvisor.calibration.attention_kernel import HEAD_DIMS
from specadvisor.calibration.gemm_formats import RECIPES, recipes_for
from specadvisor.errors import InputError, nearest

if TYPE_CHECKING:
    from specadvisor.model.architecture import Architecture

# Both sides of every tile edge: a step between two distant M is what a sparse table misses.
ROWS = (1, 2, 4, 8, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 257, 384, 512, 513, 768, 1024)
FEW_ROWS = (1, 4, 16, 17, 64, 65, 128, 129, 256, 257, 512, 1024)
QUICK_ROWS = (1, 8, 16, 17, 64, 128, 129, 256, 1024)
# (outputs, inputs): skinny, square, wide and deep, so that floor, bandwidth, peak and the walk along K can be told apart.
SHAPES = ((3072, 4096), (10240, 8192), (4096, 16384), (16384, 4096), (28672, 4096))
QUICK_SHAPES = ((10240, 8192), (4096, 16384))
MAX_PACKED_ROWS = 512
KV_HEADS = 8

# Seconds, as planned for a datacentre GPU: a point stops as soon as its samples agree, so these err on the long side.
_POINT_S = {"gemm": 0.09, "attention": 0.11, "memory": 0.12, "launch": 0.1}
_SETUP_S = {"gemm": 0.25, "attention": 0.55, "memory": 0.3, "launch": 0.1}


@dataclass(frozen=True, slots=True)
class GemmPoint:
    """One matrix product y[m, n] = x[m, k] W[n, k]^T."""

    format: str
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class AttentionPoint:
    """One verify step: ``batch`` sequences of ``query_tokens`` new tokens on ``context`` keys.

    ``group`` query heads share a KV head. ``split`` False forces one pass along the cache per block, as FlashAttention-2
    does for several query tokens. ``page_size`` 0 is a contiguous cache, ``tile_rows`` 0 the tile that fits the rows.
    """

    batch: int
    query_tokens: int
    context: int
    group: int
    kv_heads: int = KV_HEADS
    head_dim: int = 128
    kv_format: str = "bf16"
    split: bool = True
    page_size: int = 0
    tile_rows: int = 0

    @property
    def rows(self) -> int:
        return self.query_tokens * self.group

    @property
    def cache_bytes(self) -> int:
        """Bytes of K and V together."""
        return self.batch * self.context * self.kv_heads * self.head_dim * 2 * (1 if self.kv_format == "fp8" else 2)


@dataclass(frozen=True, slots=True)
class Section:
    """Points that are measured together, and the seconds planned for them."""

    name: str
    operator: str
    points: tuple[Any, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The sections in order of measurement; ``other_s`` for checks, sentinels and fit; notes on what was ``left_out``."""

    sections: tuple[Section, ...]
    other_s: float = 0.0
    left_out: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return self.other_s + sum(section.seconds for section in self.sections)


def make_plan(
    compute_capability: int,
    *,
    quick: bool = False,
    model: Architecture | None = None,
    tp: int = 1,
    formats: Iterable[str] | None = None,
) -> Plan:
    """The plan for a GPU of this compute capability; ``model`` contributes its own weight shapes, heads and head dimension.

    Raises ``InputError`` for a GPU that is too old, a format that is not measured on such a GPU, and for a ``tp`` that does
    not divide the heads.
    """
    available = [r.format for r in recipes_for(compute_capability)]
    if not available:  # the kernels copy with cp.async and multiply in bf16
        raise InputError("gpu", f"sm_{compute_capability}", "compute capability 8.0 (Ampere) or newer")
    formats = None if formats is None else list(formats)
    known = [recipe.format for recipe in RECIPES]
    for name in formats or ():
        if name not in known or not set(available) & set(formats or ()):
            raise InputError("GEMM format", name, ", ".join(available), nearest(name, available))
    if model is not None:
        model.check_tp(tp)
    elif tp < 1:
        raise InputError("tp", tp, "1 or more")
    wanted = [f for f in available if formats is None or f in set(formats)]
    if quick and model is None and formats is None:
        wanted = wanted[:2]
    sections = [
        _section("bandwidth", "memory", memory_sizes(quick)),
        _section("launch floor", "launch", (None,) * (2 if quick else 4)),
    ]
    shapes = model_shapes(model, tp) if model else (QUICK_SHAPES if quick else SHAPES)
    for i, name in enumerate(wanted):
        rows = QUICK_ROWS if quick else (ROWS if i == 0 else FEW_ROWS)
        points = tuple(GemmPoint(name, m, n, k) for n, k in (shapes if i == 0 else shapes[:4]) for m in rows)
        sections.append(_section(f"GEMM {name}", "gemm", points, setups=len(shapes)))
    for name, attention in attention_points(quick, model, tp).items():
        variants = len({(p.head_dim, p.kv_format, min(p.rows, 65) // 17) for p in attention})
        sections.append(_section(name, "attention", attention, setups=variants))
    return Plan(tuple(sections))


def _section(name: str, operator: str, points: tuple[Any, ...], setups: int = 1) -> Section:
    return Section(name, operator, points, round(len(points) * _POINT_S[operator] + setups * _SETUP_S[operator], 2))


def memory_sizes(quick: bool) -> tuple[int, ...]:
    """Bytes read in one call: through the last-level cache and far past it, so that both plateaus show."""
    return tuple(2**p for p in ((24, 26, 27, 28, 29, 30, 31) if quick else (20, 22, 24, 25, 26, 27, 28, 29, 30, 31)))


def model_shapes(model: Architecture, tp: int = 1) -> tuple[tuple[int, int], ...]:
    """(outputs, inputs) on one rank of the model's matrices, fused ones together, largest total work first, at most eight."""
    work: dict[tuple[int, int], int] = {}
    for layer in model.layers:
        fused: dict[str, tuple[int, int]] = {}
        for linear in layer.linears:
            outputs, inputs = (round(x) for x in linear.on_rank(tp))
            key = linear.fused or linear.name
            fused[key] = (fused.get(key, (0, 0))[0] + outputs, inputs)
        for shape in fused.values():
            work[shape] = work.get(shape, 0) + layer.count * shape[0] * shape[1]
    # cuBLASLt's narrow formats need 16-byte rows; a shape that violates it is no kernel any engine runs.
    usable = [s for s in sorted(work, key=lambda s: -work[s]) if s[0] % 16 == 0 and s[1] % 32 == 0 and min(s) >= 64]
    return tuple(usable[:8])


def attention_points(quick: bool, model: Architecture | None = None, tp: int = 1) -> dict[str, tuple[AttentionPoint, ...]]:
    """Section name -> points. With ``model``: its group size, KV heads on the rank and head dimension instead of the grid's."""
    heads = _model_heads(model, tp) if model else None
    group, kv_heads, dim = heads or (8, KV_HEADS, 128)
    if quick:
        quick_points = [AttentionPoint(8, q, 8192, group, kv_heads, dim) for q in (1, 2, 4, 8, 9, 16)]
        quick_points += [AttentionPoint(b, q, s, group, kv_heads, dim) for b, s in ((1, 32768), (32, 2048)) for q in (1, 4)]
        quick_points += [AttentionPoint(8, 4, 8192, group, kv_heads, dim, split=False)]
        return {"attention bf16": _fitting(quick_points)}
    places = ((1, 8192), (1, 32768), (8, 2048), (8, 8192), (32, 2048), (32, 8192))
    groups = (group,) if heads else (1, 4, 8)
    bf16 = [AttentionPoint(8, q, 8192, g, kv_heads, dim) for g in groups for q in (1, 2, 4, 8, 9, 16, 32, 64)]
    bf16 += [AttentionPoint(b, q, s, g, kv_heads, dim) for b, s in places for g in groups[-2:] for q in (1, 4, 8, 16)]
    unsplit = [
        AttentionPoint(b, q, s, group, kv_heads, dim, split=False)
        for b, s in ((1, 8192), (1, 32768), (8, 8192))
        for q in (1, 4, 8)
    ]
    paged = [AttentionPoint(8, q, 8192, group, kv_heads, dim, page_size=16) for q in (1, 4, 8)]
    fp8 = [
        AttentionPoint(b, q, s, group, kv_heads, dim, "fp8")
        for b, s in ((1, 32768), (8, 8192), (32, 8192))
        for q in (1, 4, 8, 16)
    ]
    dims = [AttentionPoint(8, q, 8192, group, kv_heads, d) for d in HEAD_DIMS if d != dim and not heads for q in (1, 4, 8)]
    named = {
        "attention bf16": bf16,
        "attention unsplit": unsplit,
        "attention paged": paged,
        "attention fp8": fp8,
        "head dims": dims,
    }
    return {name: _fitting(points) for name, points in named.items() if points}


def _fitting(points: list[AttentionPoint]) -> tuple[AttentionPoint, ...]:
    return tuple(dict.fromkeys(p for p in points if p.rows <= MAX_PACKED_ROWS))


def _model_heads(model: Architecture, tp: int) -> tuple[int, int, int] | None:
    """(group, KV heads, head dimension) on one rank of the model's most frequent GQA layer that the kernel can run."""
    candidates = [
        (layer.count, mixer)
        for layer, mixer in model.attentions()
        if mixer.kind == "gqa" and mixer.key_dim == mixer.value_dim and mixer.key_dim in HEAD_DIMS
    ]
    if not candidates:
        return None
    mixer = max(candidates, key=lambda pair: pair[0])[1]
    return max(1, round(mixer.group_size(tp))), mixer.kv_heads_on_rank(tp), mixer.key_dim
