"""Sparse attention (DSA and relatives): an indexer scores all keys, then every query token reads its own top-k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.hardware import Gpu
from specadvisor.kernels.gemm import norm_sum
from specadvisor.kernels.parameters import as_gpu, find_entry, floor_s, positive
from specadvisor.ranges import FloatArray

HEADS_PER_CTA = 64.0


class SparseTerms(NamedTuple):
    """Seconds of one block (a query token's 64 heads) if all SMs shared it, the number of blocks, and the SMs."""

    block_s: FloatArray
    blocks: FloatArray
    sm_count: FloatArray


class IndexTerms(NamedTuple):
    """Seconds of the matrix units and of reading the keys, at datasheet speed."""

    compute_s: FloatArray
    memory_s: FloatArray


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
    """Seconds of one layer: indexer logits over ``context`` keys plus attention over ``top_k`` keys.

    No query token shares its keys with another, so the time depends on batch * query_tokens only: one wave of SMs is flat,
    then it is linear. ``heads`` on the rank; without an indexer (``indexer_heads`` 0) only the attention is counted.
    """
    gpu = as_gpu(gpu)
    batch, query = positive("batch", batch), positive("query_tokens", query_tokens)
    attend = find_entry(gpu, "sparse_attention", kv_format, engine).parameters
    terms = sparse_terms(gpu, batch * query, positive("top_k", top_k), positive("heads", heads), latent, rope)
    seconds = sparse_attention_law(attend, terms, floor_scale) + np.zeros_like(positive("context", context))
    if not indexer_heads:
        return seconds
    index = find_entry(gpu, "index_logits", kv_format, engine).parameters
    logits = index_terms(gpu, batch, query, positive("context", context), indexer_heads, indexer_dim)
    return seconds + index_logits_law(index, logits, floor_scale)


def sparse_terms(
    gpu: Gpu, tokens: FloatArray, top_k: FloatArray, heads: Any, latent: float = 512, rope: float = 64
) -> SparseTerms:
    """Matrix work of the gathered keys, in blocks of 64 heads of one query token::

        block = 2 top_k (2 latent + rope) 64 / peak            blocks = tokens ceil(heads / 64)

    The kernel walks all ``top_k`` slots also where the context is shorter (measured: the time does not fall).
    """
    blocks = tokens * np.ceil(np.asarray(heads, dtype=np.float64) / HEADS_PER_CTA)
    block_s = 2.0 * top_k * (2.0 * latent + rope) * HEADS_PER_CTA / gpu.peak("bf16")
    blocks, block_s = np.broadcast_arrays(blocks, block_s)
    return SparseTerms(block_s, blocks, np.full(blocks.shape, float(gpu.sm_count)))


def index_terms(gpu: Gpu, batch: FloatArray, query: FloatArray, keys: FloatArray, heads: Any, dim: Any) -> IndexTerms:
    """The indexer's logits in fp8: 2 tokens keys heads dim / peak, and its keys (dim bytes and a scale) read per sequence."""
    compute = 2.0 * batch * query * keys * heads * dim / gpu.peak("fp8")
    return IndexTerms(compute, batch * keys * (dim + 4.0) / gpu.memory_bytes_per_s)


def sparse_attention_law(p: Mapping[str, float], terms: SparseTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + block max(blocks, SMs / split) / ec``: one wave of CTAs is flat, then the time is linear in query tokens.

    ``split``: CTAs that share one block, 1 on Hopper, 2 on datacentre Blackwell.
    """
    waves = np.maximum(terms.blocks, terms.sm_count / p["split"])
    return floor_s(p, floor_scale) + terms.block_s * waves / p["ec"]


def index_logits_law(p: Mapping[str, float], terms: IndexTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + ((memory/em)^4 + (compute/ec)^4)^(1/4)``."""
    return floor_s(p, floor_scale) + norm_sum(terms.memory_s / p["em"], terms.compute_s / p["ec"], 4.0)
