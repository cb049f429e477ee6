"""What a deployment holds: weights, drafter, KV pool, recurrent states, and how many requests fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.errors import DoesNotFit
from specadvisor.formats import KV_BYTES, weight_format
from specadvisor.model.architecture import Architecture, Attention, Layer, Moe, Recurrent
from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of the model on one rank."""

    layers: float
    embedding: float
    head: float

    @property
    def total(self) -> float:
        return self.layers + self.embedding + self.head


def layer_bytes_on_rank(layer: Layer, tp: int, expert_ranks: int) -> float:
    """Bytes of one such layer on one rank: matrices by their shard, experts over ``expert_ranks``, the rest copied."""
    size = sum(m.weight_bytes * m.share(tp) for m in layer.linears)
    if isinstance(layer.feed_forward, Moe):
        experts = layer.feed_forward
        routed = experts.experts * experts.expert_parameters * weight_format(experts.format).bytes_per_weight
        size += routed / expert_ranks
    other = sum(part.other_parameters for part in (layer.mixer, layer.feed_forward) if part) + layer.norm_parameters
    return size + 2.0 * other


def replicated_matrices(model: Architecture, tp: int) -> tuple[str, ...]:
    """Names of the matrices of which a rank holds more than 1/tp: KV heads beyond their count, MLA down-projections, router."""
    return tuple(sorted({m.name for layer in model.layers for m in layer.linears if m.share(tp) > 1.0 / tp + 1e-12}))


def rank_weight_bytes(deployment: Deployment) -> WeightBytes:
    """Weights of the target on one rank; embedding and head are split over the vocabulary."""
    model, tp = deployment.model, deployment.tp
    expert_ranks = max(tp, deployment.ep)
    layers = sum(la.count * layer_bytes_on_rank(la, tp, expert_ranks) for la in model.layers) + 2.0 * model.other_parameters
    embedding = model.embedding_parameters * weight_format(model.embedding_format).bytes_per_weight / tp
    head = 0.0 if model.tied else model.head.weight_bytes * model.head.share(tp)
    return WeightBytes(layers / deployment.pp, embedding / deployment.pp, head / deployment.pp)


@dataclass(frozen=True)
class Memory:
    """Memory of one rank in bytes, and the KV pool it leaves.

    ``drafter_kv_bytes_per_token`` is on the rank too. ``kv_pool_tokens`` counts tokens of full-attention context (a
    windowed layer holds its window only, so long sequences fit more).
    """

    deployment: Deployment
    total_bytes: float
    reserve_bytes: float
    weight_bytes: float
    drafter_bytes: float
    kv_bytes_per_token: float
    drafter_kv_bytes_per_token: float
    state_bytes_per_slot: float
    state_slots: FloatArray
    lookahead_slots: FloatArray

    @property
    def kv_pool_bytes(self) -> float:
        """Bytes left for KV and states; 0 where weights alone do not fit."""
        return max(0.0, self.total_bytes - self.reserve_bytes - self.weight_bytes - self.drafter_bytes)

    @property
    def kv_pool_tokens(self) -> float:
        per_token = self.kv_bytes_per_token + self.drafter_kv_bytes_per_token
        return self.kv_pool_bytes / per_token if per_token else float("inf")

    @property
    def fits(self) -> bool:
        return self.kv_pool_bytes > 0.0

    def check(self) -> None:
        """Raise ``DoesNotFit`` where the weights and the drafter leave no room for a cache."""
        if not self.fits:
            need = (self.weight_bytes + self.drafter_bytes + self.reserve_bytes) / 1e9
            raise DoesNotFit(
                f"{self.deployment.model.name}: needs {need:.1f} GB a GPU before any KV cache, {self.deployment.gpu.id} offers "
                f"{self.total_bytes / 1e9:.1f} GB. Use more ranks (tp), a smaller weight format or a larger GPU."
            )

    def sequence_bytes(self, tokens: Any) -> FloatArray:
        """Bytes that one sequence of ``tokens`` tokens holds on the rank: cache, lookahead slots, states."""
        held = np.asarray(tokens, dtype=float) + self.lookahead_slots
        block = self.deployment.serving.kv_block
        held = np.ceil(held / block) * block
        size = self.drafter_kv_bytes_per_token * held + self.state_bytes_per_slot * self.state_slots
        for layer in self.deployment.model.attention_layers():
            mixer = layer.mixer
            assert isinstance(mixer, Attention)
            kept = np.minimum(held, mixer.window + block) if mixer.window else held
            size = size + layer.count * _kv_bytes_on_rank(mixer, self.deployment) * kept
        return size

    def admitted(self, concurrency: Any, tokens: Any) -> FloatArray:
        """Requests that run at once out of ``concurrency``, each holding ``tokens`` tokens; at least 1 where the pool is not empty.

        The rest waits: the engine's own limit on requests and the pool bound it.
        """
        fitting = np.floor(self.kv_pool_bytes / np.maximum(self.sequence_bytes(tokens), 1e-9))
        speculating = np.any(np.asarray(self.lookahead_slots) > 0)
        limit = self.deployment.serving.max_requests(self.deployment.gpu, bool(speculating))
        return np.minimum(np.minimum(np.asarray(concurrency, dtype=float), np.maximum(fitting, 1.0)), limit)


def resident(
    deployment: Deployment,
    drafter_bytes: float = 0.0,
    drafter_kv_bytes_per_token: float = 0.0,
    lookahead_slots: Any = 0,
    state_slots: Any = 1,
) -> Memory:
    """Memory of ``deployment`` with a drafter of ``drafter_bytes`` (on the rank).

    ``state_slots``: recurrent states kept per sequence, 1 + k where the engine stores one per verified token.
    """
    gpu, serving = deployment.gpu, deployment.serving
    model = deployment.model
    attention = [la for la in model.attention_layers() if isinstance(la.mixer, Attention)]
    state = sum(
        la.count * (la.mixer.state_bytes + la.mixer.conv_state_bytes) for la in model.layers if isinstance(la.mixer, Recurrent)
    )
    return Memory(
        deployment=deployment,
        total_bytes=gpu.memory_bytes * serving.memory_fraction,
        reserve_bytes=serving.reserve_bytes,
        weight_bytes=rank_weight_bytes(deployment).total,
        drafter_bytes=drafter_bytes,
        kv_bytes_per_token=sum(la.count * _kv_bytes_on_rank(la.mixer, deployment) for la in attention),
        drafter_kv_bytes_per_token=drafter_kv_bytes_per_token,
        state_bytes_per_slot=state / deployment.ranks,
        state_slots=np.asarray(state_slots, dtype=float),
        lookahead_slots=np.asarray(lookahead_slots, dtype=float),
    )


def _kv_bytes_on_rank(mixer: Attention, deployment: Deployment) -> float:
    """Cache bytes of one layer and token on one rank: KV heads are split until each rank has one, a latent is copied."""
    share = 1.0 if mixer.kind == "mla" else mixer.kv_heads_on_rank(deployment.tp) / mixer.kv_heads
    return mixer.kv_elements_per_token * share * KV_BYTES[deployment.kv_format] / deployment.pp
