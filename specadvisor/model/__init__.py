"""Reads a config into an ``Architecture``: layers, matrices, caches, formats. Knows nothing of GPUs or time."""

from specadvisor.model.architecture import Architecture, Attention, Layer, Linear, Mlp, Moe, MtpBlock, Recurrent
from specadvisor.model.catalogue import ShippedModel, list_models
from specadvisor.model.components import Weights, weight_table
from specadvisor.model.loading import load_model
from specadvisor.model.sharding import rank_weight_bytes, replicated

__all__ = [
    "Architecture", "Attention", "Layer", "Linear", "Mlp", "Moe", "MtpBlock", "Recurrent", "ShippedModel", "Weights",
    "list_models", "load_model", "rank_weight_bytes", "replicated", "weight_table",
]  # fmt: skip
