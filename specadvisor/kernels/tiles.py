"""How an attention kernel cuts query rows into tiles: how often it reads the cache, and whether it can split it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from specadvisor.ranges import FloatArray

MMA_ROWS = 64.0


class Backend(Protocol):
    """What the laws ask of a serving engine's attention backend (``serving.AttentionBackend`` has it)."""

    @property
    def tile_rows(self) -> tuple[int, ...]:
        """Ascending ladder of tile sizes."""

    @property
    def packs(self) -> bool:
        """Query heads and tokens share one tile; False: at more than one token each query head reads K/V itself."""

    @property
    def whole_tokens(self) -> bool:
        """A tile holds whole tokens: floor(rows / G)."""

    @property
    def splits_kv_multi_query(self) -> bool:
        """The cache of one sequence is split over CTAs at more than one query token too."""

    @property
    def per_token(self) -> bool:
        """Every query token reads its own keys."""


@dataclass(frozen=True, slots=True)
class PackedBackend:
    """A kernel that packs all rows of a KV head into tiles of 128 and splits the cache: what most backends do."""

    tile_rows: tuple[int, ...] = (128,)
    packs: bool = True
    whole_tokens: bool = False
    splits_kv_multi_query: bool = True
    per_token: bool = False


DEFAULT_BACKEND = PackedBackend()


class Tiles(NamedTuple):
    """``passes`` over the cache per KV head, ``rows`` multiplied per pass, and where the cache is not split."""

    passes: FloatArray
    rows: FloatArray
    unsplit: NDArray[np.bool_]


def tile_passes(backend: Backend, heads: Any, kv_heads: Any, query: FloatArray) -> Tiles:
    """Tile passes of ``query`` tokens per sequence with ``heads`` / ``kv_heads`` query heads per KV head (G).

    The tile is the smallest of the ladder that holds all packed rows G * query, else the largest:
    passes = ceil(G query / tile), or ceil(query / floor(tile / G)) with whole tokens. Without packing, more than one token
    makes each of the G heads read the cache; per-token kernels read it once per token. A single pass multiplies rows
    rounded up to the matrix unit's 64, several passes full tiles: a partly filled last tile costs a full one.
    """
    group = np.maximum(np.asarray(heads, dtype=np.float64) / kv_heads, 1.0)
    query, group = np.broadcast_arrays(np.asarray(query, dtype=np.float64), group)
    tokens = np.ones_like(query) if backend.per_token else query
    packed = np.full(query.shape, backend.packs) | (tokens <= 1.0)
    in_tile = np.where(packed, group * tokens, tokens)
    ladder = np.asarray(backend.tile_rows, dtype=np.float64)
    tile = ladder[np.minimum(np.searchsorted(ladder, in_tile), ladder.size - 1)]
    passes = np.ceil(in_tile / tile - 1e-9)
    if backend.whole_tokens:
        whole = np.ceil(tokens / np.maximum(np.floor(tile / group + 1e-9), 1.0)) * np.ceil(group / tile - 1e-9)
        passes = np.where(packed, whole, passes)
    rows = np.where(passes > 1.0, tile, np.minimum(tile, np.ceil(in_tile / MMA_ROWS - 1e-9) * MMA_ROWS))
    passes = passes * np.where(packed, 1.0, group) * (query if backend.per_token else 1.0)
    unsplit = (query > 1.0) & (not backend.splits_kv_multi_query)
    return Tiles(passes, rows, unsplit)
