"""Multi-head latent attention in its absorbed form: one latent KV head, every query head on the rank reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from specadvisor.hardware import Gpu
from specadvisor.kernels.attention import AttentionTerms, cache_reading
from specadvisor.kernels.gemm import norm_sum
from specadvisor.kernels.parameters import as_gpu, cache_bytes, cache_family, find_entry, floor_s, positive
from specadvisor.kernels.tiles import tile_passes
from specadvisor.ranges import FloatArray
from specadvisor.serving.attention import AttentionBackend

# FlashMLA: 64 rows of flattened (token, head) per block.
MLA_BACKEND = AttentionBackend("kernel", tile_rows=(64,))


def mla_s(
    gpu: str | Gpu,
    batch: Any,
    query_tokens: Any,
    context: Any,
    heads: Any,
    kv_format: str = "bf16",
    engine: str = "sglang",
    *,
    backend: AttentionBackend | None = None,
    floor_scale: float = 1.0,
    latent: float = 512,
    rope: float = 64,
) -> FloatArray:
    """Seconds of one MLA layer's attention (``mla_law``); ``heads`` are those on the rank, arrays broadcast."""
    gpu = as_gpu(gpu)
    entry = find_entry(gpu, "mla", kv_format, engine)
    shape = positive("batch", batch), positive("query_tokens", query_tokens), positive("context", context)
    terms = mla_terms(gpu, *shape, positive("heads", heads), kv_format, backend or MLA_BACKEND, latent, rope)
    return mla_law(entry.parameters, terms, floor_scale)


def mla_terms(
    gpu: Gpu,
    batch: FloatArray,
    query: FloatArray,
    keys: FloatArray,
    heads: Any,
    kv_format: str,
    backend: AttentionBackend,
    latent: float = 512,
    rope: float = 64,
) -> AttentionTerms:
    """Datasheet times: keys are latent + rope wide, values are the latent part of the same bytes::

    memory = batch keys (latent + rope) b / bandwidth      compute = 2 batch keys (2 latent + rope) passes rows / peak
    """
    tiles = tile_passes(backend, heads, 1.0, query)
    passes, rows = _swapped(gpu, heads, tiles.passes, tiles.rows)
    key_bytes = (latent + rope) * cache_bytes(kv_format)
    flops = 2.0 * batch * keys * (2.0 * latent + rope) * passes * rows
    alone_s = keys * key_bytes * gpu.sm_count / gpu.memory_bytes_per_s
    return AttentionTerms(
        memory_s=batch * keys * key_bytes / gpu.memory_bytes_per_s,
        sm_s=batch * keys * (latent + rope) / (gpu.sm_count * gpu.boost_hz * gpu.clock_scale),
        compute_s=flops / _peak(gpu, kv_format),
        extra_passes=passes - 1.0,
        waves=batch * passes / gpu.sm_count,
        serial_s=np.where(tiles.unsplit, alone_s, 0.0),
        tile_cost=np.ones_like(rows),
        key_dim=np.asarray(latent + rope, dtype=np.float64),
    )


def mla_law(p: Mapping[str, float], terms: AttentionTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + tc waves + (memory^norm + compute^norm + serial^norm)^(1/norm)``, with the re-read and serial terms of
    ``attention_law``. Past 64 rows compute rules: with 128 local heads the cost grows about linearly in query tokens.
    """
    busy = norm_sum(
        norm_sum(cache_reading(p, terms, p["sm_128"]), terms.compute_s / p["ec"], p["norm"]),
        terms.serial_s / p["serial"],
        p["norm"],
    )
    return floor_s(p, floor_scale) + p["tc_s"] * terms.waves + busy


def _peak(gpu: Gpu, kv_format: str) -> float:
    """Hopper's MLA kernels multiply an fp8 cache in 16 bits, datacentre Blackwell's in fp8."""
    return gpu.peak("fp8" if cache_family(kv_format) == "fp8" and 100 <= gpu.sm < 110 else "bf16")


def _swapped(gpu: Gpu, heads: Any, passes: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Datacentre Blackwell (trtllm-gen) runs 17..32 heads as two tiles of 16, which read the cache twice: 1.4x the time of
    16 or of 64 heads in the published tables (FlashInfer fmhaKernels.cuh: swapped tiles up to 32 rows, else 64).
    """
    twice = (np.asarray(heads) > 16) & (np.asarray(heads) <= 32) & (100 <= gpu.sm < 110)
    return np.where(twice, 2.0 * passes, passes), np.where(twice, 16.0, rows)
