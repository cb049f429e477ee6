"""Seconds of a stack of layers on one rank: the target's or a drafter's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from specadvisor import kernels
from specadvisor.model.architecture import Attention, Layer, Linear, Moe, Recurrent
from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment
from specadvisor.step.time import StepTime

ACTIVATION_BYTES = 2.0
# Norms, residuals, rotary embedding and activation read and write about this many times the hidden width per token
# and layer (10-14 passes; counted on the kernels of vLLM's Llama and Qwen3 layers).
HIDDEN_PASSES_PER_LAYER = 12.0
# Kernels that make those passes: two fused norms with their residual, rotary embedding with the cache write, activation.
KERNELS_PER_LAYER = 4.0


def gemms_s(deployment: Deployment, linears: Iterable[Linear], rows: Any, tp: int, floor_scale: float) -> FloatArray:
    """Seconds of the matrices on one rank for ``rows`` tokens; those with one ``fused`` label run as one GEMM."""
    groups: dict[tuple[str, str], list[Linear]] = {}
    for linear in linears:
        groups.setdefault((linear.fused or linear.name, linear.format), []).append(linear)
    seconds = np.zeros(())
    for (_, weight_format), members in groups.items():
        n_out = sum(m.on_rank(tp)[0] for m in members)
        k_in = max(m.on_rank(tp)[1] for m in members)
        seconds = seconds + kernels.gemm_s(
            deployment.running_gpu, rows, n_out, k_in, weight_format, deployment.serving.id, floor_scale=floor_scale
        )
    return seconds


def all_reduce_s(deployment: Deployment, rows: Any, width: float, ranks: int) -> FloatArray:
    """Seconds to sum ``rows`` activations of ``width`` over the ranks; 0 on one rank."""
    if ranks == 1:
        return np.zeros(())
    message = np.asarray(rows, dtype=float) * width * ACTIVATION_BYTES
    return kernels.all_reduce_s(deployment.running_gpu, message, ranks, deployment.serving.id)


def linear_time(deployment: Deployment, linears: Sequence[Linear], rows: Any, *, tp: int | None = None) -> StepTime:
    """Seconds of ``linears`` for ``rows`` tokens, with the all-reduce that follows each row-sharded one."""
    ranks = deployment.tp if tp is None else tp
    time = StepTime({"gemm": gemms_s(deployment, linears, rows, ranks, deployment.floor_scale)})
    for linear in linears:
        if linear.shard == "row" and ranks > 1:
            time = time.plus("collective", all_reduce_s(deployment, rows, linear.out_features, ranks))
    return time


def layers_time(
    deployment: Deployment,
    layers: Sequence[Layer],
    batch: Any,
    query_tokens: Any,
    context: Any,
    *,
    tp: int | None = None,
    kv_format: str | None = None,
    rows: Any = None,
) -> StepTime:
    """Seconds of ``layers`` for ``batch`` sequences of ``query_tokens`` each on ``context`` keys.

    The three broadcast over the grid; ``rows`` is the (graph-padded) number of tokens the matrices see, batch *
    query_tokens unless given. Matrices with one all-reduce per block (mixer, feed-forward) under tensor parallelism.
    """
    ranks = deployment.tp if tp is None else tp
    kv = deployment.kv_format if kv_format is None else kv_format
    tokens = np.asarray(batch, dtype=float) * query_tokens if rows is None else np.asarray(rows, dtype=float)
    time = StepTime()
    for layer in layers:
        one = StepTime({"gemm": gemms_s(deployment, layer.linears, tokens, ranks, deployment.floor_scale)})
        one = one + _mixer_time(deployment, layer, batch, query_tokens, context, ranks, kv)
        one = one + _experts_time(deployment, layer, tokens, ranks)
        one = one + _block_collectives(deployment, layer, tokens, ranks)
        time = time + one.scaled(layer.count)
    return time.plus("elementwise", _elementwise_s(deployment, layers, tokens))


def _elementwise_s(deployment: Deployment, layers: Sequence[Layer], tokens: FloatArray) -> FloatArray:
    """Norms, residuals, rotary embedding and activations of all layers."""
    seconds = np.zeros(())
    for layer in layers:
        share = HIDDEN_PASSES_PER_LAYER / KERNELS_PER_LAYER * _width(layer) * ACTIVATION_BYTES * tokens
        one = kernels.memory_pass_s(deployment.running_gpu, share, floor_scale=deployment.floor_scale)
        seconds = seconds + layer.count * KERNELS_PER_LAYER * one
    return seconds


def _width(layer: Layer) -> float:
    """Hidden width of a layer: what its matrices read."""
    return min((m.in_features for m in layer.linears), default=0)


def _mixer_time(
    deployment: Deployment, layer: Layer, batch: Any, query_tokens: Any, context: Any, ranks: int, kv_format: str
) -> StepTime:
    mixer, gpu, engine, floor = layer.mixer, deployment.running_gpu, deployment.serving.id, deployment.floor_scale
    if isinstance(mixer, Recurrent):
        state = (mixer.state_bytes + mixer.conv_state_bytes) / ranks
        return StepTime({"recurrent": kernels.recurrent_s(gpu, batch, query_tokens, state, engine, floor_scale=floor)})
    if not isinstance(mixer, Attention):
        return StepTime()
    heads = mixer.heads_on_rank(ranks)
    sparse = mixer.top_k > 0
    backend = deployment.serving.attention_backend(gpu, mixer.key_dim, mixer.kind == "mla", sparse=sparse, kv_format=kv_format)
    if sparse:
        entries = np.asarray(context, dtype=float) / mixer.compression
        seconds = kernels.sparse_attention_s(
            gpu, batch, query_tokens, entries, heads, mixer.top_k + mixer.local_window, kv_format, engine, floor_scale=floor,
            indexer_heads=mixer.indexer_heads, indexer_dim=mixer.indexer_dim, latent=mixer.value_dim,
            rope=mixer.key_dim - mixer.value_dim,
        )  # fmt: skip
    elif mixer.kind == "mla":
        seconds = kernels.mla_s(
            gpu, batch, query_tokens, mixer.keys_read(context), heads, kv_format, engine, backend=backend, floor_scale=floor,
            latent=mixer.value_dim, rope=mixer.key_dim - mixer.value_dim,
        )  # fmt: skip
    else:
        seconds = kernels.attention_s(
            gpu, batch, query_tokens, context, heads, mixer.kv_heads_on_rank(ranks), mixer.key_dim, kv_format, engine,
            mixer.window, value_dim=mixer.value_dim, backend=backend, floor_scale=floor,
        )  # fmt: skip
    return StepTime({"attention": seconds})


def _experts_time(deployment: Deployment, layer: Layer, tokens: FloatArray, ranks: int) -> StepTime:
    """Routed experts. Their floor is that of about six kernels (routing, permutation, products), mostly run time: a graph
    does not shorten it, so it is not scaled.
    """
    experts = layer.feed_forward
    if not isinstance(experts, Moe):
        return StepTime()
    ep = min(deployment.ep, ranks * deployment.dp)
    seen = tokens * deployment.dp if ep > ranks else tokens
    seconds = kernels.moe_s(
        deployment.running_gpu, seen, experts.hidden, experts.intermediate, experts.experts, experts.top_k, experts.format,
        max(1, ranks // ep), ep, engine=deployment.serving.id, matrices=experts.matrices,
    )  # fmt: skip
    return StepTime({"moe": seconds})


def _block_collectives(deployment: Deployment, layer: Layer, tokens: FloatArray, ranks: int) -> StepTime:
    """One all-reduce after each block whose result is split over the ranks."""
    if ranks == 1:
        return StepTime()
    time = StepTime()
    for block in (layer.mixer, layer.feed_forward):
        split = [m.out_features for m in block.linears if m.shard == "row"] if block else []
        if split or isinstance(block, Moe):
            width = max(split) if split else _width(layer)
            time = time.plus("collective", all_reduce_s(deployment, tokens, width, ranks))
    return time
