"""Decode and verify attention with one K/V pair per KV head (MHA, GQA, MQA), over the whole cache or a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.hardware import Gpu
from specadvisor.kernels.gemm import norm_sum
from specadvisor.kernels.parameters import as_gpu, cache_bytes, cache_family, find_entry, positive
from specadvisor.kernels.tiles import DEFAULT_BACKEND, Backend, tile_passes
from specadvisor.ranges import FloatArray

NORM = 3.0
# Relative cost of a CTA's inner loop by tile rows 8, 16, 32, 64, 128: the cost model inside FlashInfer's trtllm-gen kernel
# choice (fmhaKernels.cuh). It counts only where the step is not bound by DRAM.
TILE_ROWS = np.log2([8.0, 16.0, 32.0, 64.0, 128.0])
TILE_COST = np.array([1.0, 1.2, 1.48, 1.68, 2.2])


class AttentionTerms(NamedTuple):
    """Seconds at datasheet speed, and the launch shape, before any fitted number."""

    memory_s: FloatArray
    compute_s: FloatArray
    extra_passes: FloatArray
    waves: FloatArray
    serial_s: FloatArray
    tile_cost: FloatArray
    key_dim: FloatArray


def attention_s(
    gpu: str | Gpu,
    batch: Any,
    query_tokens: Any,
    context: Any,
    heads: float,
    kv_heads: float,
    head_dim: float,
    kv_format: str = "bf16",
    engine: str = "vllm",
    window: float = 0,
    *,
    value_dim: float | None = None,
    backend: Backend | None = None,
    floor_scale: float = 1.0,
) -> FloatArray:
    """Seconds of one layer's attention (``attention_law``); ``heads`` and ``kv_heads`` are those on the rank.

    ``batch``, ``query_tokens`` (per sequence, 1 = plain decode) and ``context`` (keys per sequence) broadcast. ``window``:
    keys seen, 0 = all. ``backend`` says how the serving engine's kernel packs query rows and splits the cache.
    """
    gpu = as_gpu(gpu)
    entry = find_entry(gpu, "attention", kv_format, engine)
    batch, query = positive("batch", batch), positive("query_tokens", query_tokens)
    keys = positive("context", context)
    keys = np.minimum(keys, window + query - 1.0) if window else keys
    value_dim = head_dim if value_dim is None else value_dim
    shape = batch, query, keys, heads, kv_heads, head_dim, value_dim
    terms = attention_terms(gpu, *shape, kv_format, backend or DEFAULT_BACKEND)
    return attention_law(entry.parameters, terms, floor_scale)


def attention_terms(
    gpu: Gpu,
    batch: FloatArray,
    query: FloatArray,
    keys: FloatArray,
    heads: Any,
    kv_heads: Any,
    key_dim: Any,
    value_dim: Any,
    kv_format: str,
    backend: Backend,
) -> AttentionTerms:
    """Datasheet times; the cache is read once per tile pass, never once per query token::

        memory  = batch keys kv_heads (d_k + d_v) b / bandwidth
        compute = 2 batch keys kv_heads (d_k + d_v) passes rows / peak      rows: the tile's, empty ones included
        serial  = what one CTA reads when the kernel cannot split the cache, at its share bandwidth / SMs

    ``serial`` is zero for one query token: every backend splits then. With 1.2 shares per CTA it gives 18x for the cliff of
    FlashAttention-2 on an RTX 3090 (12 query heads, 2 KV heads, 256 wide, 8 query tokens), reported as 21x at 32k keys and
    27x at 200k (vllm-project/flash-attention 176 and 190).
    """
    tiles = tile_passes(backend, heads, kv_heads, query)
    head_bytes = (key_dim + value_dim) * cache_bytes(kv_format)
    cache_s = batch * keys * kv_heads * head_bytes / gpu.memory_bytes_per_s
    flops = 2.0 * batch * keys * kv_heads * (key_dim + value_dim) * tiles.passes * tiles.rows
    alone_s = keys * head_bytes * gpu.sm_count / gpu.memory_bytes_per_s
    return AttentionTerms(
        memory_s=cache_s,
        compute_s=flops / attention_peak(gpu, kv_format),
        extra_passes=tiles.passes - 1.0,
        waves=batch * kv_heads * tiles.passes / gpu.sm_count,
        serial_s=np.where(tiles.unsplit, alone_s, 0.0),
        tile_cost=np.interp(np.log2(tiles.rows), TILE_ROWS, TILE_COST),
        key_dim=np.asarray(key_dim, dtype=np.float64),
    )


def attention_law(p: Mapping[str, float], terms: AttentionTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + (reading^3 + compute^3 + latency^3 + serial^3)^(1/3)``::

        reading = (memory^norm + ctas^norm)^(1/norm)             compute = terms.compute / ec     latency = latency tile_cost
        memory  = terms.memory (1 + reread extra_passes) / em    later passes find most of the cache in L2
        ctas    = tc waves                                       per CTA, whatever the keys
        serial  = terms.serial / serial                          shares of bandwidth / SMs that a lone CTA reaches

    ``em`` is for head dimension 128; kernels are compiled per head dimension, so 64, 192 and 256 have their own where measured.
    """
    memory = terms.memory_s * (1.0 + p["reread"] * terms.extra_passes) / _bandwidth_share(p, terms.key_dim)
    reading = norm_sum(memory, p["tc_s"] * terms.waves, p["norm"])
    busy = reading**NORM + (terms.compute_s / p["ec"]) ** NORM
    busy = busy + (p["latency_s"] * terms.tile_cost) ** NORM + (terms.serial_s / p["serial"]) ** NORM
    return floor_scale * p["t0_s"] + np.cbrt(busy)


def _bandwidth_share(p: Mapping[str, float], key_dim: FloatArray) -> FloatArray:
    shares = [p["em_64"] or p["em"], p["em"], p["em_192"] or p["em"], p["em_256"] or p["em"]]
    return np.asarray(np.select([key_dim <= 96, key_dim <= 128, key_dim <= 192], shares[:3], shares[3]))


def attention_peak(gpu: Gpu, kv_format: str) -> float:
    """FLOP/s of the matrix units: Blackwell multiplies an fp8 cache in fp8, earlier kernels in 16 bits."""
    return gpu.peak("fp8" if cache_family(kv_format) == "fp8" and 100 <= gpu.sm < 120 else "bf16")
