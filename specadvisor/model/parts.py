"""What layers are made of: matrices, mixers and feed-forward blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specadvisor.formats import weight_format

Shard = Literal["column", "row", "replicated"]


@dataclass(frozen=True, slots=True)
class Linear:
    """One weight matrix, ``in_features`` x ``out_features``.

    ``shard``: ``column`` splits the outputs over tensor-parallel ranks, ``row`` the inputs (and is followed by an
    all-reduce), ``replicated`` neither. ``units`` is what can be split (heads, KV heads); ranks beyond it hold copies.
    Matrices with one ``fused`` label run as one GEMM (q, k, v; gate, up).
    """

    name: str
    in_features: int
    out_features: int
    format: str = "bf16"
    shard: Shard = "column"
    units: int = 0
    fused: str = ""

    @property
    def parameters(self) -> int:
        return self.in_features * self.out_features

    @property
    def weight_bytes(self) -> float:
        return self.parameters * weight_format(self.format).bytes_per_weight

    def share(self, tp: int) -> float:
        """Part of the matrix on one rank: 1/tp, more where units are too few to split, 1 where replicated."""
        if self.shard == "replicated" or tp == 1:
            return 1.0
        return ceil(self.units / tp) / self.units if self.units else 1.0 / tp

    def on_rank(self, tp: int) -> tuple[float, float]:
        """(outputs, inputs) of the part on one rank."""
        share = self.share(tp)
        if self.shard == "row":
            return self.out_features, self.in_features * share
        return self.out_features * share, self.in_features


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention over a cache.

    ``gqa``: ``kv_heads`` heads of ``key_dim`` + ``value_dim``. ``mla`` (absorbed): one latent head, ``key_dim`` =
    latent + rope, ``value_dim`` = latent (a slice of the key, not stored twice). ``window``: keys seen, 0 = all.
    ``top_k``: keys each query token reads after an indexer chose them, 0 = dense. ``compression``: tokens per cache
    entry. ``local_window``: uncompressed keys read beside the compressed ones. ``stores_kv`` is False for layers that
    read another layer's cache.
    """

    kind: Literal["gqa", "mla"]
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int = 0
    stores_kv: bool = True
    top_k: int = 0
    indexer_heads: int = 0
    indexer_dim: int = 0
    compression: float = 1.0
    local_window: int = 0
    linears: tuple[Linear, ...] = ()
    other_parameters: int = 0

    @property
    def kv_elements_per_token(self) -> float:
        """Cached elements per token (whole layer, no tensor parallelism); 0 where the layer stores nothing."""
        if not self.stores_kv:
            return 0.0
        return (self._entry + self.indexer_dim * (self.indexer_heads > 0)) / self.compression

    @property
    def _entry(self) -> int:
        """Elements of one uncompressed cache entry without the indexer's key."""
        return self.key_dim if self.kind == "mla" else self.kv_heads * (self.key_dim + self.value_dim)

    def kv_elements(self, tokens: ArrayLike, slack: float = 0.0) -> NDArray[np.float64]:
        """Cached elements of a sequence of ``tokens`` (whole layer, no tensor parallelism): a window keeps its own tokens and
        ``slack`` more, so does the local window that lies beside compressed entries.
        """
        held = np.asarray(tokens, dtype=float)
        kept = np.minimum(held, self.window + slack) if self.window else held
        local = self._entry * np.minimum(held, self.local_window + slack) if self.local_window and self.stores_kv else 0.0
        return np.asarray(self.kv_elements_per_token * kept + local)

    def keys_read(self, context: ArrayLike) -> NDArray[np.float64]:
        """Keys that a query reads of ``context``: its window, or the compressed entries (the chosen ones where an indexer
        chooses) and the local window beside them.
        """
        keys = np.asarray(context, dtype=float)
        entries = np.minimum(keys, self.window) if self.window else keys / self.compression
        chosen = np.minimum(entries, self.top_k) if self.top_k else entries
        return np.asarray(chosen + np.minimum(keys, self.local_window))

    def heads_on_rank(self, tp: int) -> float:
        return ceil(self.heads / tp)

    def kv_heads_on_rank(self, tp: int) -> int:
        return 1 if self.kind == "mla" else max(1, ceil(self.kv_heads / tp))

    def kv_copies(self, tp: int) -> float:
        """Cache of all ranks together over the cache of one: above 1 where ranks hold the same KV head."""
        return tp * self.kv_share(tp)

    def kv_share(self, tp: int) -> float:
        """Part of the layer's cache on one rank: KV heads are split until each rank has one, a latent is copied."""
        return 1.0 if self.kind == "mla" else self.kv_heads_on_rank(tp) / self.kv_heads

    def group_size(self, tp: int = 1) -> float:
        """G: query heads per KV head on one rank (vLLM ``get_num_kv_heads``; MLA: all query heads of the rank)."""
        return self.heads_on_rank(tp) / self.kv_heads_on_rank(tp)


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer with a fixed state per sequence: gated delta net, KDA, Mamba-2, short convolution.

    ``state_bytes`` is read once and written once per verified token; ``conv_state_bytes`` is small and kept too.
    Both for the whole layer and one sequence.
    """

    kind: Literal["gdn", "kda", "mamba2", "conv", "linear"]
    heads: int
    state_bytes: float
    conv_state_bytes: float = 0.0
    linears: tuple[Linear, ...] = ()
    other_parameters: int = 0


@dataclass(frozen=True, slots=True)
class Mlp:
    """A dense feed-forward block."""

    intermediate: int
    linears: tuple[Linear, ...] = ()
    other_parameters: int = 0


@dataclass(frozen=True, slots=True)
class Moe:
    """Routed experts. ``hidden``: width the experts see (latent MoE: below the model's). ``matrices``: 3 gated, 2 not.

    ``linears`` holds what every token runs: router, shared experts, latent projections, a parallel dense block.
    """

    experts: int
    top_k: int
    hidden: int
    intermediate: int
    matrices: int = 3
    format: str = "bf16"
    linears: tuple[Linear, ...] = ()
    other_parameters: int = 0
    expert_biases: int = 0

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert, its biases included."""
        return self.matrices * self.hidden * self.intermediate + self.expert_biases


Mixer = Attention | Recurrent
FeedForward = Mlp | Moe
