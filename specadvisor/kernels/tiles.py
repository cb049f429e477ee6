"""What the attention laws need of a kernel's tiles: passes over the cache, rows multiplied, and where it is not split."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specadvisor.ranges import FloatArray
from specadvisor.serving.attention import AttentionBackend

MMA_ROWS = 64.0
# A kernel that packs all rows of a KV head into tiles of 128 and splits the cache: what most backends do.
DEFAULT_BACKEND = AttentionBackend("packed", (128,))


class Tiles(NamedTuple):
    """``passes`` over the cache per KV head, ``rows`` multiplied per pass, and where the cache is not split."""

    passes: FloatArray
    rows: FloatArray
    unsplit: NDArray[np.bool_]


def tile_passes(backend: AttentionBackend, heads: Any, kv_heads: Any, query: FloatArray) -> Tiles:
    """Tile passes of ``query`` tokens per sequence with ``heads`` / ``kv_heads`` query heads per KV head (G).

    The tile law is the backend's. Rows that fit one tile are multiplied rounded up to the matrix unit's 64, more rows as full
    tiles: a partly filled last tile costs a full one.
    """
    group = np.maximum(np.asarray(heads, dtype=np.float64) / kv_heads, 1.0)
    query, group = np.broadcast_arrays(np.asarray(query, dtype=np.float64), group)
    passes, tile, wanted = backend.tiles(query, group), backend.tile(query, group), backend.rows(query, group)
    rows = np.where(wanted > tile, tile, np.minimum(tile, np.ceil(wanted / MMA_ROWS - 1e-9) * MMA_ROWS))
    unsplit = (query > 1.0) & (not backend.splits_kv_multi_query)
    return Tiles(passes, rows, unsplit)
