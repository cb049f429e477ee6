"""What tensor parallelism splits and what every rank holds whole.

Identity: ``tp * rank_weight_bytes(model, tp).total == model.weight_bytes + sum of replicated(model, tp)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from specadvisor.formats import weight_format
from specadvisor.model.architecture import Architecture, Layer, Moe

VECTORS = "norms, biases and small vectors"


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of a model on one rank. ``tables``: embeddings, those of which every layer looks up a row included."""

    layers: float
    tables: float
    head: float

    @property
    def total(self) -> float:
        return self.layers + self.tables + self.head


def rank_weight_bytes(model: Architecture, tp: int, expert_ranks: int = 0, stages: int = 1) -> WeightBytes:
    """Weights on one rank: tables and head split over the vocabulary, vectors whole, matrices by their rule, experts over
    ``expert_ranks`` (0: ``tp``); pipeline ``stages`` divide everything. Tables count as on the GPU, which is where vLLM and
    SGLang keep them.
    """
    layers = sum(layer.count * layer_on_rank(layer, tp, expert_ranks) for layer in model.layers) + 2.0 * model.other_parameters
    rows = (model.embedding_parameters + model.lookup_parameters) / tp
    tables = rows * weight_format(model.embedding_format).bytes_per_weight
    head = 0.0 if model.tied else model.head.weight_bytes * model.head.share(tp)
    return WeightBytes(layers / stages, tables / stages, head / stages)


def layer_on_rank(layer: Layer, tp: int, expert_ranks: int = 0) -> float:
    """Weight bytes of one layer on one rank: matrices by shard, experts over ``expert_ranks`` (0: ``tp``), the rest whole."""
    routed = 0.0
    if isinstance(moe := layer.feed_forward, Moe):
        routed = moe.experts * moe.expert_parameters * weight_format(moe.format).bytes_per_weight / (expert_ranks or tp)
    return sum(m.weight_bytes * m.share(tp) for m in layer.linears) + routed + 2.0 * vectors(layer)


def replicated(model: Architecture, tp: int) -> dict[str, float]:
    """Bytes that tensor parallelism adds over one copy of the model, by matrix name (all ranks together)."""
    extra: dict[str, float] = {}
    for layer in model.layers:
        for matrix in layer.linears:
            if copies := layer.count * matrix.weight_bytes * (tp * matrix.share(tp) - 1):
                extra[matrix.name] = extra.get(matrix.name, 0.0) + copies
    small = sum(layer.count * vectors(layer) for layer in model.layers) + model.other_parameters
    extra[VECTORS] = 2.0 * small * (tp - 1)
    return extra


def vectors(layer: Layer) -> int:
    """Parameters of one layer that are in no matrix."""
    return sum(part.other_parameters for part in (layer.mixer, layer.feed_forward) if part) + layer.norm_parameters
