"""Which mixer and which feed-forward block each layer has.

Mixer kinds: ``full``, ``sliding`` and ``chunked`` attention, ``linear`` (the family's recurrent mixer), ``none``.
Feed-forward kinds: ``mlp``, ``moe``, ``none``.
"""

from __future__ import annotations

from typing import Any

from specadvisor.errors import InputError
from specadvisor.model.config import Config
from specadvisor.model.families import Family

MIXERS = {
    "full_attention": "full", "attention": "full", "sliding_attention": "sliding", "local_attention": "sliding",
    "chunked_attention": "chunked", "linear_attention": "linear", "minimax_m3_sparse": "full", "sparse_attention": "full",
    "compressed_sparse_attention": "full", "heavily_compressed_attention": "full", "deepseek_sparse_attention": "full",
    "mamba": "linear", "conv": "linear",
}  # fmt: skip
SINGLE = {
    "M": ("linear", "none"), "mamba": ("linear", "none"), "*": ("full", "none"), "attention": ("full", "none"),
    "E": ("none", "moe"), "moe": ("none", "moe"), "-": ("none", "mlp"), "mlp": ("none", "mlp"),
}  # fmt: skip


def layer_kinds(config: Config, family: Family) -> list[tuple[str, str]]:
    """(mixer, feed-forward) of every layer, in order."""
    if family.blocks == "single":
        return single_blocks(config, "layers_block_type")
    layers = config.integer("num_hidden_layers")
    return list(zip(mixer_kinds(config, family, layers), feed_forward_kinds(config, layers), strict=True))


def single_blocks(config: Config, key: str) -> list[tuple[str, str]]:
    """One block a layer, from a string (``M*E-``) or a list of names."""
    spelling, value = config.found(key)
    if not value or not isinstance(value, (str, list)) or not all(isinstance(block, str) for block in value):
        raise InputError(f"{config.source}: {spelling}", value, f"a string or list of {', '.join(SINGLE)}")
    return [known(config, spelling, block, SINGLE) for block in value]


def known(config: Config, spelling: str, value: Any, accepted: dict[str, Any]) -> Any:
    """What ``value`` stands for; raises ``InputError`` with the accepted names."""
    if not isinstance(value, str) or value not in accepted:
        raise InputError(f"{config.source}: {spelling}", value, ", ".join(accepted))
    return accepted[value]


def mixer_kinds(config: Config, family: Family, layers: int) -> list[str]:
    """The mixer of every layer, from whichever key states the pattern."""
    if types := config.per_layer("layer_types", layers):
        return [known(config, "layer_types", str(kind), MIXERS) for kind in types]
    if pattern := config.per_layer("hybrid_layer_pattern", layers):
        return ["sliding" if windowed else "full" for windowed in pattern]
    if isinstance(linear := config.get("linear_attn_config"), dict):
        full = config.numbers("linear_attn_config.full_attn_layers", linear.get("full_attn_layers"))
        return ["full" if i + 1 in full else "linear" for i in range(layers)]
    if every := config.count("full_attention_interval"):
        return ["full" if (i + 1) % every == 0 else "linear" for i in range(layers)]
    if config.count("attention_chunk_size"):
        ropeless = config.per_layer("no_rope_layers", layers) or [int((i + 1) % 4 != 0) for i in range(layers)]
        return ["chunked" if rope else "full" for rope in ropeless]
    if every := config.count("sliding_window_pattern"):
        return ["full" if (i + 1) % every == 0 else "sliding" for i in range(layers)]
    return ["sliding" if family.windowed and config.count("sliding_window") else "full"] * layers


def feed_forward_kinds(config: Config, layers: int) -> list[str]:
    """``moe`` or ``mlp`` for every layer, from whichever key states the pattern."""
    if not config.count("experts"):
        return ["mlp"] * layers
    if types := config.per_layer("mlp_layer_types", layers):
        return ["mlp" if kind == "dense" else "moe" for kind in types]
    if isinstance(config.get("moe_layer_freq"), list):
        return ["moe" if on else "mlp" for on in config.per_layer("moe_layer_freq", layers) or ()]
    if enumerated := config.get("moe_layers_enum"):
        on = {int(i) for i in str(enumerated).split(",") if i.strip().isdigit()}
        return ["moe" if i in on else "mlp" for i in range(layers)]
    step = config.integer("interleave_moe_layer_step", config.integer("decoder_sparse_step", 1))
    every, first = config.integer("moe_layer_freq", 1), config.count("first_k_dense_replace")
    dense = config.numbers("mlp_only_layers", config.get("mlp_only_layers"))
    sparse = (i >= first and i % every == 0 and i not in dense and (i + 1) % step == 0 for i in range(layers))
    return ["moe" if on else "mlp" for on in sparse]
