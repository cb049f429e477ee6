"""Mixers with a fixed state per sequence: gated delta net, Kimi delta attention (KDA), Mamba-2.

State sizes: delta rules keep ``heads x key_dim x value_dim``, Mamba-2 ``heads x head_dim x state_size``, in float32
unless the config says 16 bit; convolutions keep their last ``kernel - 1`` inputs in 16 bit.
"""

from __future__ import annotations

from specadvisor.model.architecture import Recurrent
from specadvisor.model.scope import Scope


def state_element_bytes(scope: Scope, key: str) -> int:
    """4 or 2 bytes, from the dtype that the config states under ``key``; unstated: float32, the default of vLLM for Nemotron-H
    and Kimi delta attention, and of SGLang.
    """
    return 4 if str(scope.config.get(key, "float32")) in ("float32", "fp32") else 2


def gdn(scope: Scope) -> Recurrent:
    """Gated delta net (Qwen3-Next, Qwen3.5)."""
    config, part, hidden = scope.config, "linear_attn", scope.hidden
    value_heads, value_dim = config.integer("linear_num_value_heads"), config.integer("linear_value_head_dim")
    key_dim, kernel = config.integer("linear_key_head_dim"), config.integer("linear_conv_kernel_dim")
    keys, values = config.integer("linear_num_key_heads") * key_dim, value_heads * value_dim
    channels = 2 * keys + values
    key_heads = config.integer("linear_num_key_heads")
    return Recurrent(
        "gdn",
        value_heads,
        float(value_heads * key_dim * value_dim * state_element_bytes(scope, "mamba_ssm_dtype")),
        2.0 * channels * (kernel - 1),
        linears=(
            scope.linear(part, "in_proj_qkv", hidden, channels, units=key_heads, fused="in_proj"),
            scope.linear(part, "in_proj_z", hidden, values, units=value_heads, fused="in_proj"),
            scope.linear(part, "in_proj_b", hidden, value_heads, units=value_heads, fused="in_proj_ba", kept=True),
            scope.linear(part, "in_proj_a", hidden, value_heads, units=value_heads, fused="in_proj_ba", kept=True),
            scope.linear(part, "out_proj", values, hidden, shard="row", units=value_heads),
        ),
        other_parameters=channels * kernel + 2 * value_heads + value_dim,
    )


def kda(scope: Scope) -> Recurrent:
    """Kimi delta attention: per-channel decay, low-rank or full-rank output gate."""
    linear = scope.config.table("linear_attn_config")
    part, hidden = scope.family.name("attention"), scope.hidden
    heads, dim, kernel = (
        scope.config.checked(f"linear_attn_config.{key}", linear.get(key), 1, 10**6)
        for key in ("num_heads", "head_dim", "short_conv_kernel_size")
    )
    width = heads * dim
    if linear.get("use_full_rank_gate"):
        gate = [scope.linear(part, "g_proj", hidden, width, units=heads)]
    else:
        gate = [
            scope.linear(part, "g_a_proj", hidden, dim, shard="replicated"),
            scope.linear(part, "g_b_proj", dim, width, units=heads),
        ]
    return Recurrent(
        "kda",
        heads,
        4.0 * heads * dim * dim,
        2.0 * 3 * width * (kernel - 1),
        linears=(
            *(scope.linear(part, f"{name}_proj", hidden, width, units=heads, fused="qkv") for name in "qkv"),
            scope.linear(part, "f_a_proj", hidden, dim, shard="replicated"),
            scope.linear(part, "f_b_proj", dim, width, units=heads),
            scope.linear(part, "b_proj", hidden, heads, units=heads),
            *gate,
            scope.linear(part, "o_proj", width, hidden, shard="row", units=heads),
        ),
        other_parameters=3 * width * kernel + heads + width + dim,
    )


def mamba2(scope: Scope) -> Recurrent:
    """Mamba-2 (Nemotron-H)."""
    config, part, hidden = scope.config, scope.family.name("attention"), scope.hidden
    heads, state, kernel = config.integer("mamba_num_heads"), config.integer("ssm_state_size"), config.integer("conv_kernel")
    inner = heads * config.integer("mamba_head_dim")
    channels = inner + 2 * config.integer("n_groups") * state
    return Recurrent(
        "mamba2",
        heads,
        float(inner * state * state_element_bytes(scope, "mamba_ssm_cache_dtype")),
        2.0 * channels * (kernel - 1),
        linears=(
            scope.linear(part, "in_proj", hidden, inner + channels + heads, units=heads),
            scope.linear(part, "out_proj", inner, hidden, shard="row", units=heads),
        ),
        other_parameters=channels * (kernel + config.flag("use_conv_bias", True)) + 3 * heads + inner,
    )


MIXERS = {"gdn": gdn, "kda": kda, "mamba2": mamba2}
