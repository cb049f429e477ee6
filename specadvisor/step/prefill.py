"""Seconds to read a prompt."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor import kernels
from specadvisor.formats import weight_format
from specadvisor.model.architecture import Moe
from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment
from specadvisor.step.memory import deployed_weights


def prefill_s(deployment: Deployment, input_tokens: Any) -> FloatArray:
    """``max(2 N ISL / (efficiency * peak), weight read) + attention`` on one rank.

    N: active parameters on the rank without the output head, which runs on one position. The peak is that of the
    format that computes. Attention: every query of a causal prompt sees half of it on average (a window caps it).
    """
    model, gpu, serving = deployment.model, deployment.gpu, deployment.serving
    tokens = np.asarray(input_tokens, dtype=float)
    peak = gpu.peak(weight_format(model.weight_format).compute) * serving.prefill_efficiency
    parameters = (model.active_parameters - model.head.parameters) / deployment.tp
    matrices = np.maximum(2.0 * parameters * tokens / peak, _layer_read_s(deployment, tokens))
    return np.where(tokens > 0, matrices + _attention_s(deployment, tokens), 0.0)


def _layer_read_s(deployment: Deployment, tokens: FloatArray) -> FloatArray:
    """Seconds to read the layers' weights once; of the routed experts only those the prompt reaches."""
    total = np.asarray(deployed_weights(deployment).layers)
    for layer in deployment.model.layers:
        experts = layer.feed_forward
        if isinstance(experts, Moe):
            one = experts.expert_parameters * weight_format(experts.format).bytes_per_weight / deployment.tp
            idle = experts.experts - kernels.distinct_experts(tokens, experts.experts, experts.top_k)
            total = total - layer.count * idle * one
    return np.asarray(total / deployment.gpu.memory_bytes_per_s)


def _attention_s(deployment: Deployment, tokens: FloatArray) -> FloatArray:
    """Seconds of the score and value products of a causal prompt at the prefill efficiency of the 16-bit peak."""
    peak = deployment.gpu.peak("bf16") * deployment.serving.prefill_efficiency
    flops = np.zeros(())
    for layer, mixer in deployment.model.attentions():
        keys = mixer.keys_read(tokens / 2)
        width = mixer.key_dim + mixer.value_dim
        flops = flops + layer.count * 2.0 * mixer.heads_on_rank(deployment.tp) * width * tokens * keys
    return flops / peak
