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


def free_draft_length(group_size: float, tile_rows: int = 128) -> int:
    """k = floor(T/G) - 1, never below 0: draft tokens whose rows still share the tile of the bonus token (guideline 2)."""
    return max(0, floor(tile_rows / group_size) - 1)


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """One kernel.

    ``tile_rows``: the ladder of tile sizes, ascending; the kernel takes the first that holds its rows, else the last.
    ``whole_tokens``: a tile holds floor(T/G) tokens with all their heads, else rows are packed flat (T/G, a real number).
    ``packs``: False for kernels whose query heads each read K and V for themselves as soon as there is more than one query
    token (with one they share). ``splits_kv_multi_query``: False where the cache is not split over SMs at more than one
    query token, so that only batch * KV heads * tiles blocks work. ``per_token``: every query token reads the cache itself.
    ``head_slots``: heads that share a tile come in these numbers only (empty: any). ``tile_costs``: cost of a pass over the
    cache relative to the smallest tile, where the kernel is not bound by memory. ``grows_with_group``: the only tile is the
    power of two that holds the group, if that is above ``tile_rows``.
    """

    name: str
    tile_rows: tuple[int, ...]
    whole_tokens: bool = False
    packs: bool = True
    splits_kv_multi_query: bool = True
    per_token: bool = False
    head_slots: tuple[int, ...] = ()
    tile_costs: tuple[float, ...] = ()
    grows_with_group: bool = False
    source: str = ""

    def max_tile_rows(self, group_size: float) -> int:
        """T: rows of the largest tile."""
        largest = self.tile_rows[-1]
        return max(largest, 2 ** int(np.ceil(np.log2(group_size)))) if self.grows_with_group else largest

    def tokens_per_tile(self, group_size: float) -> float:
        """Query tokens of one KV head that share one pass over the cache; below 1 where one token needs several passes.

        Without packing it is what one query head can hold.
        """
        rows = self.max_tile_rows(group_size)
        if self.per_token:
            return 1.0
        if not self.packs:
            return float(rows)
        if self.head_slots:
            return rows / self._slot(group_size)
        whole = rows // group_size
        return float(whole) if self.whole_tokens and whole else rows / group_size

    def tiles(self, query_tokens: Any, group_size: float) -> FloatArray:
        """Passes over the cache of one (sequence, KV head) for ``query_tokens`` tokens (array): 1 as long as they are free.

        Packed: ceil(n / tokens per tile). Not packed: 1 at n = 1, G * ceil(n / T) beyond. Per token: n * ceil(G / T).
        """
        n = np.asarray(query_tokens, dtype=float)
        rows, tokens = self.max_tile_rows(group_size), self.tokens_per_tile(group_size)
        if not self.packs:
            return np.where(n > 1, group_size * np.ceil(n / tokens), 1.0)
        if self.head_slots and not self.per_token:
            return np.ceil(group_size / self._slot(group_size)) * np.ceil(n / tokens)
        if self.per_token or (self.whole_tokens and tokens < 1):
            return n * np.ceil(group_size / rows)
        return np.ceil(_exact(n / tokens))

    def tile(self, query_tokens: Any, group_size: float) -> FloatArray:
        """Rows of the tile that ``query_tokens`` tokens use (array)."""
        n = np.asarray(query_tokens, dtype=float)
        if self.grows_with_group:
            return np.full_like(n, self.max_tile_rows(group_size))
        heads = self._slot(group_size) if self.head_slots else group_size
        rows = np.where(n > 1, n, n * heads) if not self.packs else heads * (np.ones_like(n) if self.per_token else n)
        ladder = np.asarray(self.tile_rows, dtype=float)
        return ladder[np.minimum(np.searchsorted(ladder, rows), len(ladder) - 1)]

    def free_draft_length(self, group_size: float) -> int:
        """Draft tokens that need no second pass over the cache (guideline 2 for this kernel)."""
        if self.per_token or (not self.packs and group_size > 1):
            return 0
        return max(0, floor(self.tokens_per_tile(group_size)) - 1)

    def aligned_draft_lengths(self, group_size: float, k_max: int) -> tuple[int, ...]:
        """Draft lengths up to ``k_max`` that fill their last tile best: floor(j * tokens per tile) - 1 (guideline 3)."""
        tokens = self.tokens_per_tile(group_size)
        if self.per_token or tokens < 1:
            return ()
        lengths = {floor(_exact(j * tokens)) - 1 for j in range(1, int((k_max + 1) / tokens) + 2)}
        return tuple(sorted(k for k in lengths if 0 < k <= k_max))

    def waste(self, query_tokens: Any, group_size: float) -> FloatArray:
        """Share of the tile rows that carry no query: 1 - G*n / (tiles * tile rows) (array)."""
        n = np.asarray(query_tokens, dtype=float)
        return np.clip(1.0 - group_size * n / (self.tiles(n, group_size) * self.tile(n, group_size)), 0.0, 1.0)

    def _slot(self, group_size: float) -> int:
        return next((slot for slot in self.head_slots if slot >= group_size), self.head_slots[-1])


def _exact(value: Any) -> Any:
    """Without the last digits, so that 3 * (128 / 48) is 8 and not 7.999...: ceil and floor follow."""
    return np.round(value, 9)
