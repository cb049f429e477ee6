"""A hand-countable model and a serving engine without surprises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.model.architecture import Architecture, Attention, Layer, Linear, Mlp, Moe, Recurrent
from specadvisor.serving.attention import AttentionBackend

HIDDEN = 256


@dataclass(frozen=True)
class PlainEngine:
    """Graphs for every batch, no padding, no host time unless asked for."""

    id: str = "vllm"
    host_s: float = 0.0
    host_overlap: bool = False
    round_overhead_s: float = 0.0
    floor_scale: float = 0.3
    sampling_passes: float = 4.0
    eager_layer_s: float = 1e-4
    prefill_efficiency: float = 0.5
    memory_fraction: float = 0.9
    reserve_bytes: float = 1e9
    verify_logit_copies: float = 0.0
    kv_block: int = 16
    requests: float = 256.0
    pad_to: float = 1.0
    ceiling_tokens: float = 512.0

    def attention_backend(
        self, gpu: Any, head_dim: float, mla: bool = False, *, sparse: bool = False, kv_format: str = ""
    ) -> AttentionBackend:
        return AttentionBackend("packed", (128,))

    def graph_tokens(self, batch: Any, query_tokens: Any, gpu: Any, max_requests: int | None = None, tp: int = 1) -> Any:
        return np.ceil(np.asarray(batch, float) / self.pad_to) * self.pad_to * query_tokens

    def graph_ceiling(self, gpu: Any, batch: Any, query_tokens: Any, max_requests: int | None = None, tp: int = 1) -> Any:
        return np.full(np.broadcast(batch, query_tokens).shape, self.ceiling_tokens)

    def max_requests(self, gpu: Any, speculating: bool) -> float:
        return self.requests


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
