"""A hand-countable model and a serving engine without surprises."""

from __future__ import annotations

from typing import Any

from specadvisor.model.architecture import Architecture, Attention, Layer, Linear, Mlp, Moe, Recurrent

from ..fake_engine import FakeEngine

HIDDEN = 256
PLAIN: dict[str, Any] = {
    "host_overlap": False, "round_overhead_s": 0.0, "eager_layer_s": 1e-4, "reserve_bytes": 1e9, "requests": 256.0,
    "ceiling_tokens": 512.0, "tile_rows": (128,),
}  # fmt: skip


def plain_engine(**options: Any) -> FakeEngine:
    """No host time unless asked for, one tile size, graphs up to 512 tokens, 1 GB set aside."""
    return FakeEngine(**(PLAIN | options))


def attention_layer(count: int = 2, window: int = 0) -> Layer:
    """4 query and 2 KV heads of 64; a gated MLP of 512."""
    linears = (
        Linear("q", HIDDEN, 256, units=4, fused="qkv"),
        Linear("k", HIDDEN, 128, units=2, fused="qkv"),
        Linear("v", HIDDEN, 128, units=2, fused="qkv"),
        Linear("o", 256, HIDDEN, shard="row", units=4),
    )
    mlp = Mlp(
        512,
        (
            Linear("gate", HIDDEN, 512, fused="gate_up"),
            Linear("up", HIDDEN, 512, fused="gate_up"),
            Linear("down", 512, HIDDEN, shard="row"),
        ),
    )
    return Layer(count, Attention("gqa", 4, 2, 64, 64, window=window, linears=linears), mlp, norm_parameters=2 * HIDDEN)


def moe_layer(count: int = 1) -> Layer:
    plain = attention_layer(count)
    router = Linear("router", HIDDEN, 8, shard="replicated")
    return Layer(count, plain.mixer, Moe(8, 2, HIDDEN, 64, linears=(router,)), norm_parameters=2 * HIDDEN)


def recurrent_layer(count: int = 1) -> Layer:
    mixer = Recurrent(
        "gdn", 4, state_bytes=1_000_000.0, linears=(Linear("in", HIDDEN, 256), Linear("out", 256, HIDDEN, shard="row"))
    )
    return Layer(count, mixer, attention_layer().feed_forward, norm_parameters=2 * HIDDEN)


def model(*layers: Layer) -> Architecture:
    return Architecture(
        name="tiny",
        model_type="tiny",
        hidden=HIDDEN,
        vocab=1000,
        layers=layers or (attention_layer(),),
        head=Linear("lm_head", HIDDEN, 1000),
        tied=False,
        weight_format="bf16",
    )
