"""What a model is made of, as a cost model needs it: layer groups, their matrices, caches and states.

One description serves every question: parameter counts and bytes sum the matrices, step times price the same
matrices, and a drafter is made of the same parts as a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specadvisor.errors import InputError
from specadvisor.formats import KV_BYTES, weight_format

FloatArray = NDArray[np.float64]
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
        stored = self.key_dim if self.kind == "mla" else self.kv_heads * (self.key_dim + self.value_dim)
        return (stored + self.indexer_dim * (self.indexer_heads > 0)) / self.compression

    def heads_on_rank(self, tp: int) -> float:
        return ceil(self.heads / tp)

    def kv_heads_on_rank(self, tp: int) -> int:
        return 1 if self.kind == "mla" else max(1, ceil(self.kv_heads / tp))

    def kv_copies(self, tp: int) -> float:
        """Cache of all ranks together over the cache of one: above 1 where ranks hold the same KV head."""
        return float(tp) if self.kind == "mla" else self.kv_heads_on_rank(tp) * tp / self.kv_heads

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


@dataclass(frozen=True, slots=True)
class Layer:
    """``count`` layers of one shape."""

    count: int
    mixer: Mixer | None
    feed_forward: FeedForward | None
    norm_parameters: int = 0

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Every dense matrix of one such layer (routed experts are in ``feed_forward``)."""
        return tuple(m for part in (self.mixer, self.feed_forward) if part for m in part.linears)

    @property
    def parameters(self) -> int:
        """Parameters of one such layer, all experts included."""
        routed = self.feed_forward.experts * self.feed_forward.expert_parameters if isinstance(self.feed_forward, Moe) else 0
        other = sum(part.other_parameters for part in (self.mixer, self.feed_forward) if part)
        return sum(m.parameters for m in self.linears) + routed + other + self.norm_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters one token uses."""
        if not isinstance(self.feed_forward, Moe):
            return self.parameters
        idle = self.feed_forward.experts - self.feed_forward.top_k
        return self.parameters - idle * self.feed_forward.expert_parameters

    @property
    def weight_bytes(self) -> float:
        routed = 0.0
        if isinstance(self.feed_forward, Moe):
            size = weight_format(self.feed_forward.format).bytes_per_weight
            routed = self.feed_forward.experts * self.feed_forward.expert_parameters * size
        other = sum(part.other_parameters for part in (self.mixer, self.feed_forward) if part) + self.norm_parameters
        return sum(m.weight_bytes for m in self.linears) + routed + 2.0 * other


@dataclass(frozen=True, slots=True)
class MtpBlock:
    """The multi-token-prediction block that ships with a model: ``modules`` copies of ``layers`` behind a 2h -> h projection.

    ``declared`` is False where the weights exist but the config has no key for them. The head is the target's.
    """

    modules: int
    layers: tuple[Layer, ...]
    projection: Linear
    norm_parameters: int = 0
    declared: bool = True
    shares_target_kv: bool = False

    @property
    def parameters(self) -> int:
        one = sum(la.count * la.parameters for la in self.layers) + self.projection.parameters + self.norm_parameters
        return self.modules * one

    @property
    def weight_bytes(self) -> float:
        one = sum(la.count * la.weight_bytes for la in self.layers) + self.projection.weight_bytes + 2.0 * self.norm_parameters
        return self.modules * one


@dataclass(frozen=True, slots=True)
class Architecture:
    """A language model read from its config. Counts exclude vision towers and the MTP block unless they say so.

    ``lookup_parameters``: further embedding tables of which a token reads one row (per-layer embeddings): resident,
    never active.
    """

    name: str
    model_type: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    head: Linear
    tied: bool
    weight_format: str
    kv_format: str = "bf16"
    embedding_format: str = "bf16"
    max_context: int = 0
    mtp: MtpBlock | None = None
    other_parameters: int = 0
    lookup_parameters: int = 0
    warnings: tuple[str, ...] = field(default=())

    @property
    def layer_count(self) -> int:
        return sum(layer.count for layer in self.layers)

    @property
    def embedding_parameters(self) -> int:
        return self.vocab * self.hidden

    @property
    def total_parameters(self) -> int:
        """Every parameter once: a tied head is the embedding."""
        tables = self.embedding_parameters + self.lookup_parameters + (0 if self.tied else self.head.parameters)
        return sum(layer.count * layer.parameters for layer in self.layers) + tables + self.other_parameters

    @property
    def active_parameters(self) -> int:
        """Used per token: input embedding excluded (one row is read), output head included."""
        return sum(la.count * la.active_parameters for la in self.layers) + self.head.parameters + self.other_parameters

    @property
    def weight_bytes(self) -> float:
        """Resident bytes of the whole model (all ranks together), without the MTP block."""
        tables = self.embedding_parameters + self.lookup_parameters
        head = 0.0 if self.tied else self.head.weight_bytes
        layers = sum(la.count * la.weight_bytes for la in self.layers)
        return layers + tables * weight_format(self.embedding_format).bytes_per_weight + head + 2.0 * self.other_parameters

    @property
    def kv_bytes_per_token(self) -> float:
        """Cache bytes that one more token of context adds (windowed layers included, as below their window)."""
        return self.kv_bytes_per_token_as(self.kv_format)

    def kv_bytes_per_token_as(self, kv_format: str) -> float:
        return KV_BYTES[kv_format] * sum(layer.count * mixer.kv_elements_per_token for layer, mixer in self.attentions())

    def kv_bytes_per_sequence(self, tokens: ArrayLike, tp: int = 1) -> FloatArray:
        """Cache bytes of a sequence of ``tokens``, all ranks together: windowed layers keep their window only."""
        context, total = np.asarray(tokens, dtype=float), np.zeros(np.shape(tokens))
        for layer, mixer in self.attentions():
            kept = np.minimum(context, mixer.window) if mixer.window else context
            total = total + layer.count * mixer.kv_elements_per_token * mixer.kv_copies(tp) * kept
        return total * KV_BYTES[self.kv_format]

    @property
    def state_bytes_per_sequence(self) -> float:
        """Recurrent and convolution state of one sequence, one copy."""
        return sum(layer.count * (mixer.state_bytes + mixer.conv_state_bytes) for layer, mixer in self.recurrents())

    def attention_layers(self) -> Iterator[Layer]:
        return (layer for layer, _ in self.attentions())

    def attentions(self) -> Iterator[tuple[Layer, Attention]]:
        """Layer groups with softmax attention, each with its mixer."""
        return ((layer, layer.mixer) for layer in self.layers if isinstance(layer.mixer, Attention))

    def recurrents(self) -> Iterator[tuple[Layer, Recurrent]]:
        """Layer groups with a recurrent state, each with its mixer."""
        return ((layer, layer.mixer) for layer in self.layers if isinstance(layer.mixer, Recurrent))

    def group_size(self, tp: int = 1) -> float:
        """G of the full-attention layers on one rank (the largest count of layers decides where they differ)."""
        groups = [(la.count, mixer) for la, mixer in self.attentions() if not mixer.window]
        groups = groups or [(la.count, mixer) for la, mixer in self.attentions()]
        return max(groups, key=lambda group: group[0])[1].group_size(tp) if groups else 0.0

    def check_tp(self, tp: int) -> None:
        """Raise ``InputError`` where ``tp`` does not divide the query heads."""
        for _, mixer in self.attentions():
            if tp < 1 or mixer.heads % tp:
                raise InputError("tp", tp, f"a divisor of the {mixer.heads} query heads of {self.name}")

    def with_kv_format(self, kv_format: str) -> Architecture:
        return replace(self, kv_format=kv_format)
