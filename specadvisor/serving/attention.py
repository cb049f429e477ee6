"""How an attention kernel lays query rows over a KV cache: what guidelines 2 and 3 are about.

One (sequence, KV head) owns K and V. Its G query heads times n query tokens are R = G*n rows that can share one pass over
K and V as long as they fit one query tile of T rows. So n = T/G tokens are free, k = T/G - 1 draft tokens, and past a
multiple of that another tile, another pass, is needed. NVIDIA states the rule for T = 128 (``128/G - 1``, "as a starting
point"); T, and whether a kernel packs at all, is a property of kernel, GPU and head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from specadvisor.ranges import FloatArray


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """One kernel; its methods take numbers or arrays (query tokens, group size) that broadcast.

    ``tile_rows``: the ladder of tile sizes, ascending; the kernel takes the first that holds its rows, else the last.
    ``whole_tokens``: a tile holds floor(T/G) tokens with all their heads, else rows are packed flat (T/G, a real number).
    ``packs``: False for kernels whose query heads each read K and V for themselves as soon as there is more than one query
    token (with one they share). ``splits_kv_multi_query``: False where the cache is not split over SMs at more than one
    query token, so that only batch * KV heads * tiles blocks work. ``per_token``: every query token reads the cache itself.
    ``head_slots``: heads that share a tile come in these numbers only (empty: any). ``grows_with_group``: the only
    tile is the power of two that holds the group, if that is above ``tile_rows``.
    """

    name: str
    tile_rows: tuple[int, ...]
    whole_tokens: bool = False
    packs: bool = True
    splits_kv_multi_query: bool = True
    per_token: bool = False
    head_slots: tuple[int, ...] = ()
    grows_with_group: bool = False
    source: str = ""

    def max_tile_rows(self, group_size: Any) -> FloatArray:
        """T: rows of the largest tile."""
        largest = float(self.tile_rows[-1])
        if not self.grows_with_group:
            return np.full(np.shape(group_size), largest)
        return np.maximum(largest, 2.0 ** np.ceil(np.log2(np.asarray(group_size, dtype=float))))

    def tokens_per_tile(self, group_size: Any) -> FloatArray:
        """Query tokens of one KV head that share one pass over the cache; below 1 where one token needs several passes.

        Without packing it is what one query head can hold.
        """
        rows = self.max_tile_rows(group_size)
        if self.per_token:
            return np.ones_like(rows)
        if not self.packs:
            return rows
        if self.head_slots:
            return rows / self._slot(group_size)
        whole = np.floor(_exact(rows / group_size))
        return np.where(whole >= 1, whole, rows / group_size) if self.whole_tokens else rows / group_size

    def tiles(self, query_tokens: Any, group_size: Any) -> FloatArray:
        """Passes over the cache of one (sequence, KV head) for ``query_tokens`` tokens: 1 as long as they are free.

        Packed: ceil(n / tokens per tile). Not packed: 1 at n = 1, G * ceil(n / T) beyond. Per token: n * ceil(G / T).
        """
        n, group = np.broadcast_arrays(np.asarray(query_tokens, dtype=float), np.asarray(group_size, dtype=float))
        rows, tokens = self.max_tile_rows(group), self.tokens_per_tile(group)
        by_token = n * np.ceil(group / rows)
        if self.per_token:
            return by_token
        if not self.packs:
            return np.where(n > 1, group * np.ceil(n / tokens), 1.0)
        if self.head_slots:
            return np.ceil(group / self._slot(group)) * np.ceil(n / tokens)
        packed = np.ceil(_exact(n / tokens))
        return np.where(tokens < 1, by_token, packed) if self.whole_tokens else packed

    def rows(self, query_tokens: Any, group_size: Any) -> FloatArray:
        """Query rows that look for room in one tile: tokens with the heads that share it."""
        n, group = np.broadcast_arrays(np.asarray(query_tokens, dtype=float), np.asarray(group_size, dtype=float))
        heads = self._slot(group) if self.head_slots else group
        if self.per_token:
            return np.array(heads, dtype=float)
        return n * heads if self.packs else np.where(n > 1, n, n * heads)

    def tile(self, query_tokens: Any, group_size: Any) -> FloatArray:
        """Rows of the tile that ``query_tokens`` tokens use."""
        rows = self.rows(query_tokens, group_size)
        if self.grows_with_group:
            return np.broadcast_to(self.max_tile_rows(group_size), rows.shape)
        ladder = np.asarray(self.tile_rows, dtype=float)
        return ladder[np.minimum(np.searchsorted(ladder, rows), len(ladder) - 1)]

    def free_draft_length(self, group_size: float) -> int:
        """Draft tokens that need no second pass over the cache (guideline 2 for this kernel)."""
        if self.per_token or (not self.packs and group_size > 1):
            return 0
        return max(0, floor(float(self.tokens_per_tile(group_size))) - 1)

    def aligned_draft_lengths(self, group_size: float, k_max: int) -> tuple[int, ...]:
        """Draft lengths up to ``k_max`` that fill their last tile best: floor(j * tokens per tile) - 1 (guideline 3)."""
        tokens = float(self.tokens_per_tile(group_size))
        if self.per_token or tokens < 1:
            return ()
        lengths = {floor(_exact(j * tokens)) - 1 for j in range(1, int((k_max + 1) / tokens) + 2)}
        return tuple(sorted(k for k in lengths if 0 < k <= k_max))

    def waste(self, query_tokens: Any, group_size: Any) -> FloatArray:
        """Share of the tile rows that carry no query: 1 - G*n / (tiles * tile rows)."""
        n = np.asarray(query_tokens, dtype=float)
        return np.clip(1.0 - group_size * n / (self.tiles(n, group_size) * self.tile(n, group_size)), 0.0, 1.0)

    def _slot(self, group_size: Any) -> FloatArray:
        slots = np.asarray(self.head_slots, dtype=float)
        return slots[np.minimum(np.searchsorted(slots, group_size), len(slots) - 1)]


def _exact(value: Any) -> Any:
    """Without the last digits, so that 3 * (128 / 48) is 8 and not 7.999...: ceil and floor follow."""
    return np.round(value, 9)
