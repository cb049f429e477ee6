"""Sparse attention (DSA and relatives): an indexer scores all keys, then every query token reads its own top-k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.hardware import Gpu
from specadvisor.kernels.attention import attention_peak
from specadvisor.kernels.parameters import as_gpu, find_entry, positive
from specadvisor.ranges import FloatArray

HEADS_PER_CTA = 64.0


class SparseTerms(NamedTuple):
    """Seconds of the matrix units per query token and the number of tokens' waves."""

    compute_s: FloatArray


def sparse_attention_s(
    gpu: str | Gpu,
    batch: Any,
    query_tokens: Any,
    context: Any,
    heads: Any,
    top_k: float,
    kv_format: str = "fp8",
    engine: str = "vllm",
    *,
    indexer_heads: float = 0,
    indexer_dim: float = 0,
    latent: float = 512,
    rope: float = 64,
    floor_scale: float = 1.0,
) -> FloatArray:
    """Seconds of one layer: indexer logits over ``context`` keys plus attention over ``min(top_k, context)`` keys.

    No query token shares its keys with another, so the time depends on batch * query_tokens only: one wave of SMs is flat,
    then it is linear. ``heads`` on the rank; without an indexer (``indexer_heads`` 0) only the attention is counted.
    """
    gpu = as_gpu(gpu)
    tokens = positive("batch", batch) * positive("query_tokens", query_tokens)
    context = positive("context", context)
    attend = find_entry(gpu, "sparse_attention", kv_format, engine).parameters
    terms = sparse_terms(gpu, tokens, np.minimum(context, top_k), heads, kv_format, latent, rope)
    seconds = wave_law(attend, terms, floor_scale)
    if not indexer_heads:
        return seconds
    index = find_entry(gpu, "index_logits", kv_format, engine).parameters
    return seconds + wave_law(index, index_terms(gpu, tokens, context, indexer_heads, indexer_dim), floor_scale)


def sparse_terms(
    gpu: Gpu, tokens: FloatArray, keys: FloatArray, heads: Any, kv_format: str, latent: float = 512, rope: float = 64
) -> SparseTerms:
    """Matrix time of the gathered keys; each token fills whole CTAs of 64 heads, and at least one wave of them runs::

    compute = 2 keys (2 latent + rope) 64 max(tokens ceil(heads / 64), SMs) / peak
    """
    ctas = np.maximum(tokens * np.ceil(np.asarray(heads, dtype=np.float64) / HEADS_PER_CTA), gpu.sm_count)
    flops = 2.0 * keys * (2.0 * latent + rope) * HEADS_PER_CTA * ctas
    return SparseTerms(flops / attention_peak(gpu, "bf16"))


def index_terms(gpu: Gpu, tokens: FloatArray, keys: FloatArray, heads: float, dim: float) -> SparseTerms:
    """Matrix time of the indexer's logits in fp8, every token against every key: 2 tokens keys heads dim / peak."""
    return SparseTerms(2.0 * tokens * keys * heads * dim / gpu.peak("fp8"))


def wave_law(p: Mapping[str, float], terms: SparseTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + compute / ec``."""
    return floor_scale * p["t0_s"] + terms.compute_s / p["ec"]
