"""What a calibration measures, in which order of worth, and about how long it takes; needs no GPU.

A plan keeps to its promise (``FULL_S``, ``QUICK_S``) whatever is asked of it: ``RANKS`` say what comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specadvisor.calibration.attention_kernel import HEAD_DIMS
from specadvisor.calibration.gemm_formats import RECIPES, recipes_for
from specadvisor.calibration.plan_types import KV_HEADS, AttentionPoint, Chunk, GemmPoint, Plan, Section, plan_within, tiers
from specadvisor.errors import InputError, nearest

if TYPE_CHECKING:
    from specadvisor.model.architecture import Architecture

__all__ = [
    "AttentionPoint", "Chunk", "GemmPoint", "Plan", "Section", "make_plan", "memory_sizes", "model_shapes", "plan_within",
]  # fmt: skip

# Both sides of every tile edge: a step between two distant M is what a sparse table misses.
ROWS = (1, 2, 4, 8, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 257, 384, 512, 513, 768, 1024)
EDGE_ROWS = (1, 1024, 16, 17, 64, 65, 128, 129, 32, 33, 256, 257, 512, 513, 8)
FEW_ROWS = (1, 4, 16, 17, 64, 65, 128, 129, 256, 257, 512, 1024)
QUICK_ROWS = (1, 8, 16, 17, 64, 128, 129, 256, 1024)  # on a processor
CORE_ROWS = (1, 16, 64, 256, 1024)
# (outputs, inputs): skinny, square, wide and deep, so that floor, bandwidth, peak and the walk along K can be told apart.
SHAPES = ((10240, 8192), (4096, 16384), (3072, 4096), (16384, 4096), (28672, 4096))
QUICK_SHAPES = SHAPES[:2]
MAX_PACKED_ROWS = 512

FULL_S, QUICK_S = 60.0, 15.0
# Checks, three rounds of sentinels, fit and files.
OTHER_S, QUICK_OTHER_S = 6.0, 4.5
# Seconds, as planned for a datacentre GPU: a point stops as soon as its samples agree, so these err on the long side.
_POINT_S = {"gemm": 0.09, "attention": 0.11, "memory": 0.12, "launch": 0.1}
_SETUP_S = {"gemm": 0.25, "attention": 0.55, "memory": 0.3, "launch": 0.1}
# Who gets time first, lowest rank first; a tuple holds the tiers of a section. Attention: a few steps, the whole ladder of
# query tokens, other places. Where the engine's own attention is timed, our stand-in has the ranks of ``engine_plan``.
RANKS: dict[str, tuple[float, ...]] = {
    "machine": (0.0,),
    "first format": (1.0, 6.0, 12.0),
    "first format, a model's shapes": (1.0, 1.5, 12.0),
    "second format": (3.0, 8.0, 13.0),
    "other format": (7.0, 8.5, 14.0),
    "attention bf16": (2.0, 4.0, 5.0),
    "attention fp8": (7.5, 9.0, 10.0),
    "attention unsplit": (15.0,),
    "attention paged": (16.0,),
    "head dims": (17.0,),
}


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
    formats = None if formats is None else list(formats)
    wanted = _formats(compute_capability, quick and model is None, formats)
    if model is not None:
        model.check_tp(tp)
        wanted.sort(key=lambda name: name != model.weight_format)  # what goes without when time is short is not its own
    elif tp < 1:
        raise InputError("tp", tp, "1 or more")
    machine = RANKS["machine"][0]
    chunks = [
        _chunk(machine, "bandwidth", "memory", memory_sizes(quick), 1),
        _chunk(machine, "launch floor", "launch", tuple(range(2 if quick else 4)), 1),
    ]
    shapes = model_shapes(model, tp) if model else (QUICK_SHAPES if quick else SHAPES)
    for i, name in enumerate(wanted):
        position = i if formats is None else min(i, 1)  # a format that was asked for by name is no "other"
        chunks += gemm_chunks(name, position, shapes, quick, own_shapes=model is not None)
    for name, wanted_tiers in attention_tiers(quick, model, tp).items():
        done: set[Any] = set()
        for rank, points in zip(RANKS[name], tiers(*wanted_tiers), strict=False):
            variants = {(p.head_dim, p.kv_format, min(p.rows, 65) // 17) for p in points} - done
            done |= variants
            if points:
                chunks.append(_chunk(rank, name, "attention", points, len(variants)))
    return plan_within(chunks, QUICK_S if quick else FULL_S, QUICK_OTHER_S if quick else OTHER_S)


def _formats(compute_capability: int, first_two: bool, formats: list[str] | None) -> list[str]:
    available = [r.format for r in recipes_for(compute_capability)]
    if not available:  # the kernels copy with cp.async and multiply in bf16
        raise InputError("gpu", f"sm_{compute_capability}", "compute capability 8.0 (Ampere) or newer")
    known = [recipe.format for recipe in RECIPES]
    for name in formats or ():
        if name not in known or not set(available) & set(formats or ()):
            raise InputError("GEMM format", name, ", ".join(available), nearest(name, available))
    if formats is None:
        return available[:2] if first_two else available
    return [f for f in available if f in set(formats)]


def _chunk(rank: float, section: str, operator: str, points: tuple[Any, ...], setups: int) -> Chunk:
    return Chunk(rank, section, operator, points, _POINT_S[operator], setups * _SETUP_S[operator])


def gemm_chunks(format: str, position: int, shapes: tuple[tuple[int, int], ...], quick: bool, own_shapes: bool) -> list[Chunk]:
    """Both sides of every tile edge on the first shape and a few M on the second; then the other shapes; then finer M.

    ``position`` of the format: the first one gets all of ``ROWS``, the others at most four shapes.
    """
    first_format = "first format, a model's shapes" if own_shapes else "first format"
    ranks = RANKS[(first_format, "second format", "other format")[min(position, 2)]]
    shapes = shapes if position == 0 else shapes[:4]
    second, finer = (CORE_ROWS, ()) if quick else (FEW_ROWS, ROWS if position == 0 else ())

    def points(some: Iterable[tuple[int, int]], rows: tuple[int, ...]) -> list[GemmPoint]:
        return [GemmPoint(format, m, n, k) for n, k in some for m in rows]

    first, others, rest = tiers(
        [*points(shapes[:1], EDGE_ROWS), *points(shapes[1:2], CORE_ROWS)],
        points(shapes[2:], second),
        [*points(shapes[1:2], second), *points(shapes, finer)],
    )
    found = zip(ranks, (first, others, rest), (len(shapes[:2]), len(shapes[2:]), 0), strict=True)
    return [_chunk(rank, f"GEMM {format}", "gemm", some, setups) for rank, some, setups in found if some]


def memory_sizes(quick: bool) -> tuple[int, ...]:
    """Bytes read in one call: through the last-level cache and far past it, so that both plateaus show."""
    return tuple(2**p for p in ((24, 26, 28, 30, 31) if quick else (20, 22, 24, 25, 26, 27, 28, 29, 30, 31)))


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


def attention_tiers(
    quick: bool, model: Architecture | None = None, tp: int = 1
) -> dict[str, tuple[tuple[AttentionPoint, ...], ...]]:
    """Section name -> tiers of points. With ``model``: its group, KV heads on the rank and head dimension, not the grid's.

    Query tokens 1 to 16 and both sides of each tile appear once, at one place; the other places and groups have a few.
    """
    heads = _model_heads(model, tp) if model else None
    group, kv_heads, dim = heads or (8, KV_HEADS, 128)
    base = AttentionPoint(8, 1, 8192, group, kv_heads, dim)

    def at(tokens: Iterable[int], point: AttentionPoint = base, **changes: Any) -> tuple[AttentionPoint, ...]:
        found = (replace(point, query_tokens=q, **changes) for q in tokens)
        return tuple(p for p in found if p.rows <= MAX_PACKED_ROWS)

    steps = at((1, 4, 16, 8, 2, MAX_PACKED_ROWS // group))
    ladder = at((3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15))
    if quick:
        elsewhere = [p for b, s in ((1, 32768), (32, 2048)) for p in at((1, 4), batch=b, context=s)]
        return {"attention bf16": (steps, ladder, tuple(elsewhere))}
    groups = (group,) if heads else (4, 1)
    places = ((1, 32768), (32, 8192), (1, 8192), (8, 2048), (32, 2048))
    elsewhere = [p for b, s in places for p in at((1, 4, 8, 16), batch=b, context=s)]
    edges = [*at((17, 32, 33)), *(p for g in groups for p in at((1, 2, 4, 5, 8, 16, 17, 32, 33, 64, 65, 128), group=g))]
    narrow = [p for b, s in places[:2] for p in at((1, 4, 8, 16), batch=b, context=s, kv_format="fp8")]
    unsplit = [p for b, s in ((8, 8192), (1, 32768)) for p in at((1, 4, 8), batch=b, context=s, split=False)]
    named = {
        "attention bf16": (steps, (*ladder, *edges), elsewhere),
        "attention unsplit": (unsplit,),
        "attention paged": (at((1, 4, 8), page_size=16),),
        "attention fp8": (*(tuple(replace(p, kv_format="fp8") for p in some) for some in (steps, ladder)), narrow),
    }
    if not heads:
        named["head dims"] = ([p for d in HEAD_DIMS if d != dim for p in at((1, 4, 8), head_dim=d)],)
    return {name: tuple(map(tuple, found)) for name, found in named.items()}


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
