"""Verify attention with our own kernel: checked against float64, then timed with the split its rule chooses or without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration import compiler, reference
from specadvisor.calibration.attention_kernel import VARIANTS, AttentionParams, Variant, choose_splits, choose_variant
from specadvisor.calibration.checks import require
from specadvisor.calibration.driver import Module
from specadvisor.calibration.memory_bench import warm_up
from specadvisor.calibration.operands import Bench
from specadvisor.calibration.plan import AttentionPoint
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.timing import Effort, measure

KERNEL = "own split-KV kernel"
_EFFORT = Effort(budget_s=0.1)
WARM_UP_S = 0.1


class Attention:
    """Compiles variants on demand and launches them on operand sets."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._loaded: dict[str, tuple[Any, Any, int]] = {}

    def load(self, variant: Variant) -> tuple[Any, Any, int]:
        """(attention kernel, combine kernel, blocks per SM), compiled and checked against float64 the first time."""
        if variant.name not in self._loaded:
            binary = compiler.compile_cubin("attention.cu", self._bench.device.architecture, variant.defines)
            self._bench.binaries[variant.name] = binary
            module = Module(binary.cubin)
            kernel = module.kernel(variant.name, variant.threads, variant.shared_bytes)
            combine = module.kernel(f"{variant.name}_combine", variant.head_dim // 2)
            self._loaded[variant.name] = (kernel, combine, kernel.blocks_per_sm())
            try:
                self._check(variant)
            except BaseException:
                del self._loaded[variant.name]  # never timed without the check
                raise
        return self._loaded[variant.name]

    def load_all(self, variants: Iterable[Variant]) -> bool:
        """Load what is not loaded yet; whether there was anything."""
        missing = [v for v in variants if v.name not in self._loaded]
        for variant in missing:
            self.load(variant)
        return bool(missing)

    def launch(self, variant: Variant, params: AttentionParams, stream: Any) -> None:
        """One attention, and the merge of its splits."""
        kernel, combine, _ = self._loaded[variant.name]
        rows = params.query_tokens * params.heads // params.kv_heads
        row_tiles = -(-rows // variant.tile_rows)
        kernel.launch(stream, (params.splits, params.kv_heads * row_tiles, params.batch), params)
        if params.splits > 1:
            combine.launch(stream, (rows, params.kv_heads, params.batch), params)

    def prepare(
        self, variant: Variant, point: AttentionPoint, splits: int, sets: int, lengths: Sequence[int]
    ) -> list[AttentionParams]:
        """Filled operands on the device: one parameter block per set, each with its own cache."""
        bench, dim = self._bench, variant.head_dim
        heads, rows = point.kv_heads * point.group, point.rows
        query_bytes = point.batch * point.query_tokens * heads * dim * 2
        q, out = bench.allocate(query_bytes), bench.allocate(query_bytes)
        bench.fill_bf16(q, query_bytes, 4.0)
        bench.device.set_bytes(out, 0xFF, query_bytes)
        partial = splits * point.batch * point.kv_heads * rows * 4 if splits > 1 else 0
        partial_out, partial_lse = (bench.allocate(partial * width) if partial else 0 for width in (dim, 1))
        lengths_at = bench.allocate(4 * point.batch)
        bench.device.upload(lengths_at, np.asarray(lengths, np.int32))
        pages, table = self._table(point)
        params = []
        for _ in range(sets):
            cache = [bench.allocate(point.cache_bytes // 2) for _ in range(2)]
            for pointer in cache:
                if variant.kv_fp8:
                    bench.fill_bits(pointer, point.cache_bytes // 2)
                else:
                    bench.fill_bf16(pointer, point.cache_bytes // 2)
            shape = (point.batch, point.query_tokens, heads, point.kv_heads, point.context, point.page_size, pages, splits)
            scale_log2 = dim**-0.5 * math.log2(math.e)
            params.append(AttentionParams(q, *cache, out, partial_out, partial_lse, lengths_at, table, *shape, scale_log2))
        return params

    def _table(self, point: AttentionPoint) -> tuple[int, int | None]:
        """(pages per sequence, block table on the device) with the pages of all sequences shuffled; (0, None) if contiguous."""
        if not point.page_size:
            return 0, None
        pages = -(-point.context // point.page_size)
        shuffled = np.random.default_rng(0).permutation(point.batch * pages).astype(np.int32)
        table = self._bench.allocate(shuffled.nbytes)
        self._bench.device.upload(table, shuffled)
        return pages, table

    def _in_order(self, params: AttentionParams, cache: NDArray[Any]) -> NDArray[Any]:
        """A cache [batch, context, kv_heads, dim] as read from the device, its pages put in each sequence's order."""
        if not params.page_size:
            return cache
        table = self._bench.device.read(params.block_table, (params.batch, params.max_pages), np.int32)
        return cache.reshape(-1, params.page_size, *cache.shape[2:])[table].reshape(cache.shape)

    def _check(self, variant: Variant) -> None:
        """Ragged lengths, several query tokens, without split and contiguous, split and paged; raises ``CheckFailed``."""
        bench, batch, context, group = self._bench, 2, 320, 4
        kv_format = "fp8" if variant.kv_fp8 else "bf16"
        for splits, page_size in ((1, 0), (3, 16)):
            point = AttentionPoint(batch, 5, context, group, 2, variant.head_dim, kv_format, page_size=page_size)
            lengths = [context, context - 37]
            with bench.scratch():
                (params,) = self.prepare(variant, point, splits, 1, lengths)
                self.launch(variant, params, bench.stream)
                bench.device.synchronise()
                q_shape = (batch, point.query_tokens, point.kv_heads * group, variant.head_dim)
                kv_shape = (batch, context, point.kv_heads, variant.head_dim)
                q, got = (reference.from_bf16(bench.device.read(p, q_shape, np.uint16)) for p in (params.q, params.out))
                decode, width = (reference.from_e4m3, np.uint8) if variant.kv_fp8 else (reference.from_bf16, np.uint16)
                k, v = (decode(self._in_order(params, bench.device.read(p, kv_shape, width))) for p in (params.k, params.v))
            want = reference.attention(q, k, v, np.asarray(lengths))
            require(f"The attention kernel {variant.name} with {splits} split(s)", reference.relative_error(got, want))


def measure_attention(
    bench: Bench, attention: Attention, points: Sequence[AttentionPoint], step: Callable[[], None]
) -> tuple[list[Row], list[str]]:
    """(rows, notes); one allocation per point, freed before the next."""
    rows: list[Row] = []
    notes: list[str] = []
    limit = bench.device.attributes.get("shared_bytes_per_block", 99 << 10)
    variants = [v for v in dict.fromkeys(map(_variant, points)) if v.shared_bytes <= limit]
    if attention.load_all(variants):
        warm_up(bench, WARM_UP_S)  # compiling leaves the GPU idle, and its clocks may have fallen
    for point in points:
        step()
        variant = _variant(point)
        if variant not in variants:
            notes.append(f"{variant.name}: needs more shared memory than this GPU has, not measured")
            continue
        sets = bench.sets_that_fit(point.cache_bytes)
        if sets == 0:
            notes.append(
                f"attention batch {point.batch} x {point.context} keys: the cache does not fit into free memory, not measured"
            )
            continue
        rows.append(_measure_one(bench, attention, variant, point, sets))
    return rows, list(dict.fromkeys(notes))


def _variant(point: AttentionPoint) -> Variant:
    kv_fp8 = point.kv_format == "fp8"
    if point.tile_rows:
        return next(
            v for v in VARIANTS if (v.head_dim, v.tile_rows, v.kv_fp8) == (point.head_dim, point.tile_rows, kv_fp8)
        )  # fmt: skip
    return choose_variant(point.head_dim, point.rows, kv_fp8)


def _measure_one(bench: Bench, attention: Attention, variant: Variant, point: AttentionPoint, sets: int) -> Row:
    _, _, blocks_per_sm = attention.load(variant)
    blocks = point.batch * point.kv_heads * -(-point.rows // variant.tile_rows)
    kv_tiles = -(-point.context // variant.tile_keys)
    splits = choose_splits(blocks, kv_tiles, bench.device.sm_count, blocks_per_sm) if point.split else 1
    with bench.scratch():
        params = attention.prepare(variant, point, splits, sets, [point.context] * point.batch)
        timing = measure(bench.device, lambda s, i: attention.launch(variant, params[i], s), sets, _EFFORT)
        bench.device.synchronise()
    facts = {"tile_rows": variant.tile_rows, "splits": splits, "page_size": point.page_size, "sets": sets}
    return row(
        "attention",
        point.kv_format,
        timing,
        kernel=KERNEL,
        stand_in=True,
        auto=point.split and not point.tile_rows,
        batch=point.batch,
        query_tokens=point.query_tokens,
        context=point.context,
        heads=point.kv_heads * point.group,
        kv_heads=point.kv_heads,
        head_dim=point.head_dim,
        **facts,
    )
