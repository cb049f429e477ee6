"""What a deployment holds: weights, drafter, KV pool, recurrent states, and how many requests fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specadvisor.errors import DoesNotFit
from specadvisor.formats import KV_BYTES
from specadvisor.model.architecture import Attention
from specadvisor.model.sharding import WeightBytes, rank_weight_bytes
from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment
from specadvisor.step.head import LOGIT_BYTES


def deployed_weights(deployment: Deployment) -> WeightBytes:
    """Weights of the target on one rank of ``deployment``."""
    return rank_weight_bytes(deployment.model, deployment.tp, max(deployment.tp, deployment.ep), deployment.pp)


class ResidentDrafter(Protocol):
    """What the memory of a drafter needs to be known for."""

    @property
    def resident_bytes(self) -> float:
        """Weights that are not shared with the target, on one rank."""

    @property
    def kv_bytes_per_token(self) -> float:
        """Own cache per token of context, on one rank."""

    @property
    def state_bytes_per_sequence(self) -> float:
        """Own recurrent state of one sequence, one copy, on one rank."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one rank in bytes. ``kv_pool_tokens`` counts tokens of full context (a windowed layer holds its window only,

    so long sequences fit more). ``state_bytes_per_slot``: recurrent state of one sequence, one copy, the drafter's included.
    """

    total_bytes: float
    reserve_bytes: float
    weight_bytes: float
    drafter_bytes: float
    kv_bytes_per_token: float
    drafter_kv_bytes_per_token: float
    state_bytes_per_slot: float

    @property
    def kv_pool_bytes(self) -> float:
        """Bytes left for caches and states; 0 where the weights alone do not fit."""
        return max(0.0, self.total_bytes - self.reserve_bytes - self.weight_bytes - self.drafter_bytes)

    @property
    def kv_pool_tokens(self) -> float:
        per_token = self.kv_bytes_per_token + self.drafter_kv_bytes_per_token
        return self.kv_pool_bytes / per_token if per_token else float("inf")

    @property
    def fits(self) -> bool:
        return self.kv_pool_bytes > 0.0


def resident(deployment: Deployment, drafter: ResidentDrafter | None = None) -> Memory:
    """Memory of one rank of ``deployment`` with ``drafter`` loaded."""
    gpu, serving, model = deployment.gpu, deployment.serving, deployment.model
    return Memory(
        total_bytes=gpu.memory_bytes * serving.memory_fraction,
        reserve_bytes=serving.reserve_bytes + (_verification_bytes(deployment) if drafter else 0.0),
        weight_bytes=deployed_weights(deployment).total,
        drafter_bytes=drafter.resident_bytes if drafter else 0.0,
        kv_bytes_per_token=sum(
            la.count * mixer.kv_elements_per_token * _element_bytes(mixer, deployment) for la, mixer in model.attentions()
        ),
        drafter_kv_bytes_per_token=drafter.kv_bytes_per_token if drafter else 0.0,
        state_bytes_per_slot=model.state_bytes_per_sequence / deployment.ranks
        + (drafter.state_bytes_per_sequence if drafter else 0.0),
    )


def _verification_bytes(deployment: Deployment) -> float:
    """What the engine sets aside on a rank to verify drafts: copies of the logits of as many requests as it may run."""
    serving = deployment.serving
    rows = serving.verify_logit_copies * serving.max_requests(deployment.gpu, True)
    return rows * deployment.model.vocab * LOGIT_BYTES / deployment.tp


def sequence_bytes(
    deployment: Deployment, memory: Memory, tokens: Any, *, slots: Any = 0, k: Any = 0, speculating: bool = False
) -> FloatArray:
    """Bytes of the pool that one sequence of ``tokens`` tokens takes on a rank: its caches and its recurrent states.

    ``slots``: KV slots beyond its tokens. Where states have a share of the pool of their own, the fuller part decides.
    """
    caches, states = cache_bytes(deployment, memory, tokens, slots), state_bytes(deployment, memory, k, speculating)
    share = deployment.serving.states.pool_share if memory.state_bytes_per_slot else 0.0
    return np.maximum(caches / (1.0 - share), states / share) if share else caches + states


def state_bytes(deployment: Deployment, memory: Memory, k: Any, speculating: bool) -> FloatArray:
    """Recurrent states of one sequence: engines keep one per verified token, to roll back to, and some copies beside."""
    return memory.state_bytes_per_slot * deployment.serving.states.copies(k, speculating)


def cache_bytes(deployment: Deployment, memory: Memory, tokens: Any, slots: Any = 0) -> FloatArray:
    """Caches of one sequence of ``tokens`` tokens and ``slots`` further ones, in whole blocks."""
    block = deployment.serving.kv_block
    held = np.ceil((np.asarray(tokens, dtype=float) + slots) / block) * block
    size = memory.drafter_kv_bytes_per_token * held
    for layer, mixer in deployment.model.attentions():
        size = size + layer.count * mixer.kv_elements(held, block) * _element_bytes(mixer, deployment)
    return np.asarray(size)


def admitted(
    deployment: Deployment,
    memory: Memory,
    concurrency: Any,
    tokens: Any,
    *,
    speculating: bool = False,
    slots: Any = 0,
    k: Any = 0,
) -> FloatArray:
    """Requests that run at once out of ``concurrency``, each holding ``tokens`` tokens on average; the rest waits.

    Bounded by the pool and by the engine's own limit on running requests; at least 1 (raise on ``Memory.fits`` first).
    """
    held = sequence_bytes(deployment, memory, tokens, slots=slots, k=k, speculating=speculating)
    fitting = np.floor(memory.kv_pool_bytes / np.maximum(held, 1e-9))
    limit = deployment.serving.max_requests(deployment.gpu, speculating)
    return np.minimum(np.minimum(np.asarray(concurrency, dtype=float), np.maximum(fitting, 1.0)), limit)


def check_fits(deployment: Deployment, memory: Memory) -> None:
    """Raise ``DoesNotFit`` where the weights and the drafter leave no room for a cache."""
    if not memory.fits:
        need = (memory.weight_bytes + memory.drafter_bytes + memory.reserve_bytes) / 1e9
        raise DoesNotFit(
            f"{deployment.model.name}: needs {need:.1f} GB a GPU before any KV cache, {deployment.gpu.id} offers "
            f"{memory.total_bytes / 1e9:.1f} GB. Use more ranks (tp), a smaller weight format or a larger GPU."
        )


def _element_bytes(mixer: Attention, deployment: Deployment) -> float:
    """Bytes on one rank of a cached element."""
    return mixer.kv_share(deployment.tp) * KV_BYTES[deployment.kv_format] / deployment.pp
