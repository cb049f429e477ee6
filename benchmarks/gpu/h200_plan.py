"""What ``h200.py`` measures, in order of worth, and how long that should take: bytes, operations and launches; needs no GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from specadvisor.calibration.attention_kernel import Variant, choose_variant
from specadvisor.calibration.gemm_formats import recipes_for
from specadvisor.calibration.plan import EDGE_ROWS, FEW_ROWS, ROWS, SHAPES, AttentionPoint, GemmPoint, memory_sizes
from specadvisor.calibration.timing import Effort, rotation
from specadvisor.hardware.gpu import Gpu

BATCHES, GROUPS, QUERY_TOKENS, CONTEXTS = (8, 32, 1, 128), (8, 4, 1), (1, 2, 4, 8, 16, 32), (8192, 32768, 2048)
TILES = (16, 64, 128)
PLACES = ((8, 8192), (1, 32768), (32, 8192))  # batch and context of the comparisons

# Assumed, not measured: shares of bandwidth and peak that our kernel and cuBLASLt reach, and what the host needs.
MEMORY_SHARE, ATTENTION_SHARE, GEMM_SHARE = 0.8, 0.3, 0.7
LAUNCH_S, ENQUEUE_S, ALLOCATE_S, POINT_S = 5e-6, 12e-6, 3e-4, 0.01
UNSETTLED_S = 0.1  # a point whose samples do not agree is given up after about that long
COMPILE_S, TORCH_IMPORT_S, CHECK_S = 0.7, 10.0, 3.0


@dataclass(frozen=True, slots=True)
class Task:
    """Points that are measured together or not at all; ``section`` groups tasks in the output, ``seconds`` is the estimate."""

    section: str
    kind: str  # memory, launch, attention, torch or gemm
    points: tuple[Any, ...]
    seconds: float

    @property
    def gigabytes(self) -> float:
        """Of the largest operand set."""
        return max((p.cache_bytes / 1e9 for p in self.points if isinstance(p, AttentionPoint)), default=0.0)


def variant_of(point: AttentionPoint) -> Variant:
    """The kernel variant that fits the point's rows, or the one of its forced tile."""
    rows = point.tile_rows or point.rows
    return choose_variant(point.head_dim, rows, point.kv_format == "fp8")


def attention_s(point: AttentionPoint, gpu: Gpu, packs: bool = True) -> float:
    """Seconds of one call: every tile of query rows reads the cache, and unsplit work fills few multiprocessors."""
    tile = variant_of(point).tile_rows
    tiles = -(-point.rows // tile)
    operations = 4.0 * point.batch * point.kv_heads * tiles * tile * point.context * point.head_dim
    blocks = point.batch * point.kv_heads * tiles
    if not packs:  # each query head is a tile of its own
        blocks, operations = blocks * point.group, operations * point.group
        tiles *= point.group
    idle = 1.0 if point.split and packs else max(1.0, gpu.sm_count / blocks)
    memory = point.cache_bytes * (1 + 0.3 * (tiles - 1)) / (MEMORY_SHARE * gpu.memory_bytes_per_s)
    return LAUNCH_S + idle * max(memory, operations / (ATTENTION_SHARE * gpu.peaks["bf16"]))


def gemm_s(point: GemmPoint, gpu: Gpu) -> float:
    """Seconds of one product."""
    width = 2 if point.format == "bf16" else 1
    memory = (point.n * point.k * width + 2 * point.m * (point.n + point.k)) / (MEMORY_SHARE * gpu.memory_bytes_per_s)
    peak = gpu.peaks["bf16" if point.format == "bf16" else "fp8"]
    return LAUNCH_S + max(memory, 2.0 * point.m * point.n * point.k / (GEMM_SHARE * peak))


def measuring_s(call_s: float, sets: int, set_bytes: float, effort: Effort, gpu: Gpu, rounds: int = 2) -> float:
    """Seconds of ``timing.measure`` for such a call, its operands' allocation and filling included."""
    probe = max(sets, 3)
    calls = max(1, min(2000, math.ceil(effort.replay_s / call_s)))
    calls = math.ceil(calls / sets) * sets
    replay = calls * call_s
    replays = min(20, math.ceil(effort.warm_s / replay)) + rounds * (effort.min_samples + 1)
    busy = (2 + 2 * probe) * call_s + replays * replay
    host = ENQUEUE_S * (2 + probe + calls) + 4 * ALLOCATE_S * sets
    return POINT_S + busy + host + 2 * sets * set_bytes / (MEMORY_SHARE * gpu.memory_bytes_per_s)


def attention_point_s(point: AttentionPoint, gpu: Gpu, packs: bool = True) -> float:
    """Seconds to measure one point."""
    sets = rotation(point.cache_bytes, gpu.l2_bytes)
    return measuring_s(attention_s(point, gpu, packs), sets, point.cache_bytes, Effort(), gpu)


def _attention(section: str, points: list[AttentionPoint], gpu: Gpu) -> Task:
    return Task(section, "attention", tuple(points), sum(attention_point_s(p, gpu) for p in points))


def _grid(kv_format: str, context: int, gpu: Gpu, small: bool) -> list[Task]:
    """One task per batch and group: a whole ladder of query tokens each, so that every ratio has both its ends."""
    batches, groups, tokens = (s[::3] if small else s for s in (BATCHES, GROUPS, QUERY_TOKENS))
    return [
        _attention(
            f"verify {kv_format} {context}", [AttentionPoint(b, q, context, g, kv_format=kv_format) for q in tokens], gpu
        )
        for b in batches
        for g in groups
    ]


def past_the_tiles(batch: int, context: int, group: int) -> list[AttentionPoint]:
    """The last query count on each tile and the first beyond, which the ladder of powers of two does not show."""
    fills = [tile // group for tile in TILES if tile >= group]
    return [AttentionPoint(batch, q, context, group) for fill in fills for q in (fill, fill + 1)]


def between(kv_format: str) -> list[AttentionPoint]:
    """The query tokens up to 16 that the ladder of powers of two leaves out, and 512 packed rows, at one place."""
    tokens = (*(q for q in range(1, 17) if q not in QUERY_TOKENS), 64)
    return [AttentionPoint(8, q, 8192, 8, kv_format=kv_format) for q in tokens]


def _choices(gpu: Gpu, small: bool) -> list[Task]:
    """The same work with every tile, without split and in pages: what a kernel pays that chooses otherwise."""
    tokens = (4, 16) if small else QUERY_TOKENS
    forced = [_attention("tiles", [AttentionPoint(8, q, 8192, 8, tile_rows=t) for q in tokens], gpu) for t in TILES]
    unsplit = [_attention("no split", [AttentionPoint(b, q, 8192, 8, split=False) for q in tokens], gpu) for b in (8, 1)]
    return [*unsplit, *forced, _attention("pages of 16", [AttentionPoint(8, q, 8192, 8, page_size=16) for q in tokens], gpu)]


def _torch(gpu: Gpu, small: bool) -> list[Task]:
    """Beside our kernel on the same points; the first task pays for the import."""
    tokens, places = (QUERY_TOKENS[::3], PLACES[:1]) if small else (QUERY_TOKENS, PLACES)
    tasks: list[Task] = []
    for b, s in places:
        for g in GROUPS[:2]:
            points = tuple(AttentionPoint(b, q, s, g) for q in tokens)
            seconds = sum(attention_point_s(p, gpu, packs=False) for p in points) + (0 if tasks else TORCH_IMPORT_S)
            tasks.append(Task("torch beside", "torch", points, seconds))
    return tasks


def _products(name: str, gpu: Gpu, small: bool) -> list[Task]:
    """One task per weight shape: all rows on one filled weight; both sides of every tile edge on the first."""
    shapes = SHAPES[:1] if small else SHAPES
    width = 2 if name == "bf16" else 1
    tasks = []
    for n, k in shapes:
        rows = ROWS if name == "bf16" else (EDGE_ROWS if (n, k) == SHAPES[0] else FEW_ROWS)
        rows = rows[:3] if small else rows
        points = tuple(GemmPoint(name, m, n, k) for m in rows)
        sets = rotation(n * k * width, gpu.l2_bytes)
        seconds = sum(measuring_s(gemm_s(p, gpu), sets, 0.0, Effort(), gpu) for p in points)
        autotune = 3 * 7 * 0.03
        tasks.append(Task(f"GEMM {name}", "gemm", points, seconds + autotune))
    return tasks


def make_tasks(gpu: Gpu, small: bool = False) -> list[Task]:
    """Every task, most wanted first: whoever runs out of time loses the last ones."""
    sizes = memory_sizes(small)
    moved = sum(3 * size * 40 for size in sizes) / (MEMORY_SHARE * gpu.memory_bytes_per_s)
    formats = [r.format for r in recipes_for(gpu.sm) if r.format in ("bf16", "fp8", "fp8_block")]
    verify = [task for context in CONTEXTS[:2] for task in _grid("bf16", context, gpu, small)]
    narrow = [task for context in CONTEXTS for task in _grid("fp8", context, gpu, small)]
    places = PLACES[:1] if small else PLACES
    edges = [_attention("past the tiles", past_the_tiles(b, s, g), gpu) for b, s in places for g in GROUPS[:2]]
    products = {name: _products(name, gpu, small) for name in formats}
    return [
        Task("bandwidth", "memory", sizes, moved + 0.1 * len(sizes)),
        Task("launch floor", "launch", (None,) * 4, 0.4),
        *verify[: len(verify) // 2],
        *edges,
        *(_attention("between", between(kv_format), gpu) for kv_format in ("bf16", "fp8")),
        *products.pop("bf16"),
        *verify[len(verify) // 2 :],
        *_torch(gpu, small),
        *_choices(gpu, small),
        *narrow[: len(narrow) // 3],
        *_grid("bf16", CONTEXTS[2], gpu, small),
        *(task for tasks in products.values() for task in tasks),
        *narrow[len(narrow) // 3 :],
    ]


def checks_s(kernels: int) -> float:
    """Seconds before the first time is taken: each attention kernel is compiled and compared with float64."""
    return CHECK_S + COMPILE_S * kernels


def within(tasks: list[Task], seconds: float) -> tuple[list[Task], list[Task]]:
    """(kept, dropped) for ``seconds`` of measuring, if every task takes as long as estimated."""
    kept: list[Task] = []
    dropped: list[Task] = []
    for task in tasks:
        fits = task.seconds <= seconds
        (kept if fits else dropped).append(task)
        seconds -= task.seconds if fits else 0.0
    return kept, dropped


def plan_text(tasks: list[Task], dropped: list[Task], before_s: float, closing_s: float, budget_s: float) -> str:
    """The plan as a table: points, largest cache, estimated seconds, seconds since the start."""
    lines = [f"{'section':20s} {'points':>6s} {'GB':>6s} {'seconds':>8s} {'until':>7s}"]
    until = before_s
    lines.append(f"{'start and checks':20s} {'':6s} {'':6s} {before_s:8.1f} {until:7.1f}")
    for section in dict.fromkeys(t.section for t in tasks):
        mine = [t for t in tasks if t.section == section and t not in dropped]
        skipped = sum(len(t.points) for t in dropped if t.section == section)
        seconds = sum(t.seconds for t in mine)
        until += seconds
        points, largest = sum(len(t.points) for t in mine), max((t.gigabytes for t in mine), default=0.0)
        left_out = f"  {skipped} points dropped" if skipped else ""
        lines.append(f"{section:20s} {points:6d} {largest:6.1f} {seconds:8.1f} {until:7.1f}{left_out}")
    lines.append(f"{'fit and report':20s} {'':6s} {'':6s} {closing_s:8.1f} {until + closing_s:7.1f}")
    slow = until + closing_s + UNSETTLED_S * sum(len(t.points) for t in tasks if t not in dropped)
    lines.append(
        f"about {until + closing_s:.0f} s, {slow:.0f} s if no sample settles (budget {budget_s:.0f} s): estimated from bytes, "
        "operations and launches; nothing was measured"
    )
    return "\n".join(lines)
