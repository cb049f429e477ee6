"""``load_model``: find the config, read it, apply the caller's formats."""

from __future__ import annotations

from pathlib import Path

from specadvisor.errors import InputError
from specadvisor.formats import weight_format
from specadvisor.ids import resolve
from specadvisor.model.architecture import Architecture
from specadvisor.model.config import Config
from specadvisor.model.quantization import quantization, uniform
from specadvisor.model.reader import read
from specadvisor.model.sources import Source, find

SAME_CHECKPOINT = {"w4a16_nvfp4": "nvfp4", "w4a16_g32": "w4a16", "fp16": "bf16"}
"""Formats that one published name covers."""


def load_model(source: str | Path | Architecture, weights: str | None = None, kv: str | None = None) -> Architecture:
    """The model behind ``source``: config.json, model folder, .gguf file, ``hf:org/name`` or a shipped name.

    ``weights`` re-expresses the matrices in one format. A checkpoint that already is in that format keeps its own mix
    (its exclude list says more than a rule). Otherwise: a GGUF format covers the whole model, embedding and head
    included; any other leaves embedding, head, norms and routers in 16 bit. ``kv`` overrides the cache format.
    Raises ``InputError`` for anything that cannot be read.
    """
    if isinstance(source, Architecture):
        model = source
        if weights is not None:
            raise InputError("weights", weights, "nothing beside a loaded model", "Load it again from its config.")
    else:
        model = from_source(find(source), weights)
    return model if kv is None else model.with_kv_format(resolve("KV format", kv))


def from_source(source: Source, weights: str | None) -> Architecture:
    """Read what ``find`` found, with the formats of the checkpoint or of the caller."""
    wanted = weight_format(weights).id if weights is not None else None
    if source.gguf is not None:
        from specadvisor.model.gguf_file import read_gguf

        return read_gguf(source.gguf, source.name, wanted)
    config = Config.of(source.config, source.origin)
    if wanted is None:
        return read(config, quantization(config, source.hf_quant), source.name)
    try:
        own = quantization(config, source.hf_quant)
    except InputError:
        own = None
    if own is not None:
        model = read(config, own, source.name)
        if family_of(model.weight_format) == family_of(wanted):
            return model
    return read(config, uniform(wanted, own or quantization(Config.of({}, source.origin))), source.name)


def family_of(format_id: str) -> str:
    """The name under which checkpoints in ``format_id`` are published."""
    return SAME_CHECKPOINT.get(format_id, format_id)
