"""Decode and verify attention with one K/V pair per KV head (MHA, GQA, MQA), over the whole cache or a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.errors import InputError
from specadvisor.hardware import Gpu
from specadvisor.kernels.gemm import norm_sum
from specadvisor.kernels.parameters import as_gpu, cache_bytes, cache_family, find_entry, floor_s, positive
from specadvisor.kernels.tiles import DEFAULT_BACKEND, tile_passes
from specadvisor.ranges import FloatArray
from specadvisor.serving.attention import AttentionBackend

NORM = 3.0
# Relative cost of a CTA's inner loop by tile rows 8, 16, 32, 64, 128: the cost model inside FlashInfer's trtllm-gen kernel
# choice (fmhaKernels.cuh). It counts only where the step is not bound by DRAM.
TILE_ROWS = np.log2([8.0, 16.0, 32.0, 64.0, 128.0])
TILE_COST = np.array([1.0, 1.2, 1.48, 1.68, 2.2])
# A lone CTA reads as fast as its SM issues loads, whatever the memory could give: with the 0.27 that the bandwidth of a running
# GPU already has, its time goes with the SM clock.
ALONE_CLOCK_ELASTICITY = 0.73


class AttentionTerms(NamedTuple):
    """Seconds at datasheet speed, and the launch shape, before any fitted number."""

    memory_s: FloatArray
    sm_s: FloatArray
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
    backend: AttentionBackend | None = None,
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
    group = positive("heads", heads) / positive("kv_heads", kv_heads)
    if np.any(np.abs(group - np.rint(group)) > 1e-6):
        raise InputError("kv_heads", kv_heads, f"a divisor of the {heads:g} query heads")
    keys = np.minimum(keys, window + query - 1.0) if window else keys
    key_dim = positive("head_dim", head_dim)
    shape = batch, query, keys, heads, kv_heads, key_dim, key_dim if value_dim is None else positive("value_dim", value_dim)
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
    backend: AttentionBackend,
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
    alone_s = keys * head_bytes * gpu.sm_count / gpu.memory_bytes_per_s * gpu.clock_scale**-ALONE_CLOCK_ELASTICITY
    return AttentionTerms(
        memory_s=cache_s,
        sm_s=batch * keys * kv_heads * (key_dim + value_dim) / (gpu.sm_count * gpu.boost_hz * gpu.clock_scale),
        compute_s=flops / attention_peak(gpu, kv_format),
        extra_passes=tiles.passes - 1.0,
        waves=batch * kv_heads * tiles.passes / gpu.sm_count,
        serial_s=np.where(tiles.unsplit, alone_s, 0.0),
        tile_cost=np.interp(np.log2(tiles.rows), TILE_ROWS, TILE_COST),
        key_dim=np.asarray(key_dim, dtype=np.float64),
    )


def attention_law(p: Mapping[str, float], terms: AttentionTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + (reading^3 + compute^3 + latency^3 + serial^3)^(1/3)``::

        reading = (cache^norm + ctas^norm)^(1/norm)              compute = terms.compute / ec     latency = latency tile_cost
        cache   = cache_reading(...)                             ctas    = tc waves: per CTA, whatever the keys
        serial  = terms.serial / serial                          shares of bandwidth / SMs that a lone CTA reaches

    Kernels are compiled per head dimension, so each has its own SM rate.
    """
    rates = p["sm_64"], p["sm_128"], p["sm_192"], p["sm_256"]
    dim = terms.key_dim
    rate = np.select([dim <= 96, dim <= 128, dim <= 192], rates[:3], rates[3])
    reading = norm_sum(cache_reading(p, terms, rate), p["tc_s"] * terms.waves, p["norm"])
    busy = reading**NORM + (terms.compute_s / p["ec"]) ** NORM
    busy = busy + (p["latency_s"] * terms.tile_cost) ** NORM + (terms.serial_s / p["serial"]) ** NORM
    return floor_s(p, floor_scale) + np.cbrt(busy)


def cache_reading(p: Mapping[str, float], terms: AttentionTerms, rate: Any) -> FloatArray:
    """Seconds to bring the cache into the SMs: ``((memory/em)^4 + (sm/rate)^4)^(1/4) (1 + reread extra_passes)``.

    ``em``: share of the memory bandwidth. ``rate``: cached elements per SM and cycle that the kernel can work through;
    Hopper's fp8-cache kernels are bound by it (the same rate on H100 and on H200 with 40% more bandwidth). Later passes find
    most of the cache in L2.
    """
    once = norm_sum(terms.memory_s / p["em"], terms.sm_s / rate, 4.0)
    return once * (1.0 + p["reread"] * terms.extra_passes)


def attention_peak(gpu: Gpu, kv_format: str) -> float:
    """FLOP/s of the matrix units. FlashAttention-3 (Hopper) and trtllm-gen (datacentre Blackwell) multiply an fp8 cache in fp8,
    other kernels turn it into 16 bits first.
    """
    return gpu.peak("fp8" if cache_family(kv_format) == "fp8" and 90 <= gpu.sm < 110 else "bf16")
