"""Roofline quantities behind the five guidelines: ridges, intensities, tile limits. Datasheet numbers, nothing fitted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from specadvisor.formats import weight_format
from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, cache_bytes
from specadvisor.ranges import FloatArray


class GemmRoofline(NamedTuple):
    """Seconds of the product, of reading both operands and of writing the result, each alone at datasheet speed."""

    math_s: FloatArray
    read_s: FloatArray
    write_s: FloatArray


def gemm_roofline(
    m: Any, n: Any, k: Any, *, peak: float, bandwidth: float, input_bytes: float, weight_bytes: float, output_bytes: float
) -> GemmRoofline:
    """2 m n k / peak, (m k a + n k w) / bandwidth, m n o / bandwidth; bytes per element include block scales.

    Source: NVIDIA, "AI Model Co-Design: Hardware-Friendly LLM Design" (2026-07-10), table 2.
    """
    m = np.asarray(m, dtype=np.float64)
    read = (m * k * input_bytes + np.asarray(n, dtype=np.float64) * k * weight_bytes) / bandwidth
    return GemmRoofline(2.0 * m * n * k / peak, read, m * n * output_bytes / bandwidth)


def ridge_rows(gpu: str | Gpu, format: str = "bf16") -> float:
    """M*: rows at which a GEMM of this weight format turns compute-bound, activations ignored: peak w / (2 bandwidth)."""
    gpu, fmt = as_gpu(gpu), weight_format(format)
    return gpu.peak(fmt.compute) * fmt.bytes_per_weight / (2.0 * gpu.memory_bytes_per_s)


def k_g1(ridge: Any, batch: Any) -> FloatArray:
    """Guideline 1: most draft tokens that keep the GEMMs memory-bound, max(0, floor(M* / batch) - 1)."""
    return np.maximum(0.0, np.floor(np.asarray(ridge, dtype=np.float64) / batch) - 1.0)


def gemm_intensity(m: Any, n: Any, k: Any, format: str = "bf16") -> FloatArray:
    """FLOP per byte of one GEMM, activations and 16-bit results included."""
    fmt = weight_format(format)
    m, n, k = (np.asarray(x, dtype=np.float64) for x in (m, n, k))
    return 2.0 * m * n * k / (n * k * fmt.bytes_per_weight + m * k * fmt.activation_bytes + 2.0 * m * n)


def attention_intensity(group: Any, query_tokens: Any, kv_format: str = "bf16") -> FloatArray:
    """FLOP per cache byte of GQA attention: 2 G (k+1) / b. That is G(k+1) for a bf16 cache, 2G(k+1) for fp8."""
    return 2.0 * np.asarray(group, dtype=np.float64) * query_tokens / cache_bytes(kv_format)


def mla_intensity(heads: Any, query_tokens: Any, kv_format: str = "bf16", latent: float = 512, rope: float = 64) -> FloatArray:
    """FLOP per cache byte of absorbed MLA: 2 h (k+1) (2 latent + rope) / ((latent + rope) b); values are part of the keys."""
    rows = np.asarray(heads, dtype=np.float64) * query_tokens
    return 2.0 * rows * (2.0 * latent + rope) / ((latent + rope) * cache_bytes(kv_format))


def k_g2(group: Any, tile_rows: float = 128) -> FloatArray:
    """Guideline 2: draft tokens whose rows still fit one tile, max(0, floor(tile / G) - 1); 128 is NVIDIA's rule."""
    return np.maximum(0.0, np.floor(tile_rows / np.asarray(group, dtype=np.float64) + 1e-9) - 1.0)


def hidden_context(
    gpu: str | Gpu, active_parameters: float, kv_bytes_per_token: float, query_tokens: Any, compute: str = "bf16"
) -> FloatArray:
    """L_crit: keys per sequence beyond which the linear layers hide behind the cache reads, whatever the batch.

    (k+1) 2 N bandwidth / (peak kv_bytes): MagicDec's long-context regime, N = active parameters.
    """
    gpu = as_gpu(gpu)
    per_token = 2.0 * active_parameters * gpu.memory_bytes_per_s / (gpu.peak(compute) * kv_bytes_per_token)
    return per_token * np.asarray(query_tokens, dtype=np.float64)
