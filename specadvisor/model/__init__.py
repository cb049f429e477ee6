"""Reads a config into an ``Architecture``: layers, matrices, caches, formats. Knows nothing of GPUs or time."""

from specadvisor.model.architecture import (
    Architecture,
    Attention,
    Layer,
    Linear,
    Mlp,
    Moe,
    MtpBlock,
    Recurrent,
)
from specadvisor.model.loading import load_model

__all__ = ["Architecture", "Attention", "Layer", "Linear", "Mlp", "Moe", "MtpBlock", "Recurrent", "load_model"]
