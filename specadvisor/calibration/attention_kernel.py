"""Our own verify-attention kernel: its compiled variants, parameter block and split rule."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

HEAD_DIMS = (64, 128, 256)


class AttentionParams(ctypes.Structure):
    """``struct AttentionParams`` of ``cuda/attention.cu``, passed by value."""

    _fields_ = [
        *[(n, ctypes.c_void_p) for n in ("q", "k", "v", "out", "partial_out", "partial_lse", "lengths", "block_table")],
        *[
            (n, ctypes.c_int)
            for n in ("batch", "query_tokens", "heads", "kv_heads", "capacity", "page_size", "max_pages", "splits")
        ],
        ("scale_log2", ctypes.c_float),
    ]


@dataclass(frozen=True, slots=True)
class Variant:
    """One compilation of ``attention.cu``: ``row_warps`` x ``key_warps`` warps, ``tile_keys`` keys per pipeline stage."""

    head_dim: int
    row_warps: int
    key_warps: int
    tile_keys: int
    stages: int
    kv_fp8: bool = False

    @property
    def tile_rows(self) -> int:
        """Packed query rows that one pass over the KV cache serves."""
        return 16 * self.row_warps

    @property
    def threads(self) -> int:
        return 32 * self.row_warps * self.key_warps

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory: the pipeline or the merge buffer, whichever is larger, and the queries for 256 dimensions."""
        pipeline = self.stages * 2 * self.tile_keys * self.head_dim * (1 if self.kv_fp8 else 2)
        merge = self.row_warps * self.key_warps * (16 * self.head_dim * 4 + 2 * 16 * 4)
        queries = self.tile_rows * (self.head_dim + 8) * 2 if self.head_dim > 128 else 0
        return max(pipeline, merge) + queries

    @property
    def name(self) -> str:
        return f"attention_d{self.head_dim}_r{self.tile_rows}_{'fp8' if self.kv_fp8 else 'bf16'}"

    @property
    def defines(self) -> dict[str, object]:
        return {
            "ATTENTION_KERNEL": self.name,
            "COMBINE_KERNEL": f"{self.name}_combine",
            "HEAD_DIM": self.head_dim,
            "ROW_WARPS": self.row_warps,
            "KEY_WARPS": self.key_warps,
            "TILE_KEYS": self.tile_keys,
            "STAGES": self.stages,
            "KV_FP8": int(self.kv_fp8),
        }


# Few rows leave warps free to divide the keys of a tile; many rows give each warp 16 rows of its own. With 256 dimensions
# the merge buffer of a 128-row block would exceed every GPU's shared memory.
_SHAPES = {
    (64, 16): (1, 4, 64, 3),
    (64, 64): (4, 1, 64, 2),
    (64, 128): (8, 1, 64, 3),
    (128, 16): (1, 4, 64, 3),
    (128, 64): (4, 1, 64, 2),
    (128, 128): (8, 1, 64, 3),
    (256, 16): (1, 2, 32, 2),
    (256, 64): (4, 1, 16, 4),
}
VARIANTS = tuple(Variant(dim, *shape, kv_fp8=fp8) for fp8 in (False, True) for (dim, _), shape in _SHAPES.items())


def choose_variant(head_dim: int, rows: int, kv_fp8: bool = False) -> Variant:
    """The smallest tile that holds ``rows`` packed query rows in one pass, else the largest there is."""
    ladder = sorted((v for v in VARIANTS if v.head_dim == head_dim and v.kv_fp8 == kv_fp8), key=lambda v: v.tile_rows)
    return next((v for v in ladder if v.tile_rows >= rows), ladder[-1])


def choose_splits(blocks: int, kv_tiles: int, sm_count: int, blocks_per_sm: int, limit: int = 64) -> int:
    """Splits of the KV length: 1 if the blocks fill 80% of the GPU already, else the smallest count whose last wave is
    within 85% of the best reachable one (the rule that packing kernels of the engines follow).
    """
    slots = sm_count * blocks_per_sm
    if blocks >= 0.8 * slots or kv_tiles <= 1:
        return 1
    efficiency = {}
    for n in range(1, min(limit, kv_tiles) + 1):
        if n > 1 and -(-kv_tiles // n) == -(-kv_tiles // (n - 1)):
            continue  # as many tiles per split as before: it would only add empty splits
        waves = blocks * n / slots
        efficiency[n] = waves / math.ceil(waves)
    best = max(efficiency.values())
    return min(n for n, e in efficiency.items() if e >= 0.85 * best)
