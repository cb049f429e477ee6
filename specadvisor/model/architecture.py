"""What a model is made of, as a cost model needs it: layer groups, their matrices, caches and states.

One description serves every question: parameter counts and bytes sum the matrices, step times price the same
matrices, and a drafter is made of the same parts as a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specadvisor.errors import InputError
from specadvisor.formats import KV_BYTES, weight_format
from specadvisor.model.parts import Attention, FeedForward, Linear, Mixer, Mlp, Moe, Recurrent, Shard

__all__ = [
    "Architecture", "Attention", "FeedForward", "Layer", "Linear", "Mixer", "Mlp", "Moe", "MtpBlock", "Recurrent", "Shard",
]  # fmt: skip
FloatArray = NDArray[np.float64]


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
        total = np.zeros(np.shape(tokens))
        for layer, mixer in self.attentions():
            total = total + layer.count * mixer.kv_elements(tokens) * mixer.kv_copies(tp)
        return total * KV_BYTES[self.kv_format]

    @property
    def state_bytes_per_sequence(self) -> float:
        """Recurrent and convolution state of one sequence, one copy."""
        return sum(layer.count * (mixer.state_bytes + mixer.conv_state_bytes) for layer, mixer in self.recurrents())

    def attentions(self) -> Iterator[tuple[Layer, Attention]]:
        """Layer groups with softmax attention, each with its mixer."""
        return ((layer, layer.mixer) for layer in self.layers if isinstance(layer.mixer, Attention))

    def recurrents(self) -> Iterator[tuple[Layer, Recurrent]]:
        """Layer groups with a recurrent state, each with its mixer."""
        return ((layer, layer.mixer) for layer in self.layers if isinstance(layer.mixer, Recurrent))

    def group_size(self, tp: int = 1) -> float:
        """G of the full-attention layers on one rank (the largest count of layers decides where they differ).

        Raises ``InputError`` where ``tp`` does not divide the query heads.
        """
        self.check_tp(tp)
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

    def with_warning(self, text: str) -> Architecture:
        return replace(self, warnings=(*self.warnings, text))
