"""Layers found by architecture search (Llama-Nemotron): a list of per-layer block descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specadvisor.errors import InputError
from specadvisor.model import attention, feed_forward
from specadvisor.model.architecture import FeedForward, Layer, Linear, Mixer, Mlp
from specadvisor.model.config import Config
from specadvisor.model.families import Family
from specadvisor.model.quantization import Quantization
from specadvisor.model.scope import Scope

WIDTH_STEP = 256


def nas_layers(config: Config, family: Family, quantization: Quantization) -> list[Layer]:
    """One layer for each entry of ``block_configs``."""
    layers = config.integer("num_hidden_layers")
    blocks = config.per_layer("block_configs", layers)
    if blocks is None or not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"{config.source}: block_configs", blocks, "a list of tables, one a layer")
    return [one(config, family, quantization, index, block) for index, block in enumerate(blocks)]


def one(config: Config, family: Family, quantization: Quantization, index: int, block: Mapping[str, Any]) -> Layer:
    """``n_heads_in_group`` query heads share a KV head; ``ffn_mult`` gives the width, rounded up to 256."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    described = Config(block, config.top, f"{config.source}: block_configs[{index}]")
    mix, forward = described.table("attention"), described.table("ffn")
    group = described.checked("n_heads_in_group", mix.get("n_heads_in_group") or 1, 1, heads)
    multiple = forward.get("ffn_mult") or 0
    if isinstance(multiple, bool) or not isinstance(multiple, (int, float)) or not 0 <= multiple <= 1000:
        raise InputError(f"{described.source}: ffn_mult", multiple, "a number from 0 to 1000")
    width = int(2 * multiple * hidden / 3)
    sizes = {"num_key_value_heads": heads // group, "intermediate_size": -(-width // WIDTH_STEP) * WIDTH_STEP}
    own: dict[str, Any] = {**config.text, **sizes}
    own_config = Config(own, config.top, config.source, config.defaults)
    scope = Scope(own_config, family, quantization, (f"layers.{index}",), index, "full")
    replaced: list[Linear] = []
    mixer: Mixer | None = None
    ff: FeedForward | None = None
    norms = 0
    if mix.get("replace_with_linear"):
        replaced.append(scope.linear("self_attn", "linear_attn", hidden, hidden))
        norms += hidden
    elif not mix.get("no_op"):
        mixer = attention.gqa(scope)
        norms += hidden
    if forward.get("replace_with_linear"):
        replaced.append(scope.linear("mlp", "linear_mlp", hidden, hidden))
        norms += hidden
    elif not forward.get("no_op"):
        ff = feed_forward.mlp(scope)
        norms += hidden
    if replaced:
        ff = Mlp(ff.intermediate if isinstance(ff, Mlp) else 0, (*replaced, *(ff.linears if ff else ())))
    return Layer(1, mixer, ff, norms)
