"""One linear layer: ``m`` rows times a weight of ``n_out`` x ``k_in``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.formats import WeightFormat, weight_format
from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, find_entry, positive
from specadvisor.ranges import FloatArray

OUTPUT_BYTES = 2.0
TILE_N = 128
WAVE_EXPONENT = 0.3


class GemmTerms(NamedTuple):
    """What the law is made of, before any fitted number: seconds at datasheet speed, and shape facts."""

    memory_s: FloatArray
    compute_s: FloatArray
    depth: FloatArray
    rows: FloatArray
    weight_cycle_s: FloatArray


def gemm_s(
    gpu: str | Gpu,
    m: Any,
    n_out: Any,
    k_in: Any,
    weight_format: str = "bf16",
    engine: str = "vllm",
    *,
    floor_scale: float = 1.0,
) -> FloatArray:
    """Seconds of one GEMM (``gemm_law``); ``m``, ``n_out``, ``k_in`` broadcast. ``floor_scale`` scales the launch floor."""
    gpu = as_gpu(gpu)
    entry = find_entry(gpu, "gemm", weight_format, engine)
    terms = gemm_terms(gpu, positive("m", m), positive("n_out", n_out), positive("k_in", k_in), weight_format)
    return gemm_law(entry.parameters, terms, floor_scale)


def gemm_terms(gpu: Gpu, m: FloatArray, n: FloatArray, k: FloatArray, format: str) -> GemmTerms:
    """Datasheet times of the shapes::

        memory  = (n k w + m k a + 2 m n) / bandwidth                  w, a: bytes per weight, activation (block scales in)
        compute = 2 rows n k / peak * pad^0.3
        tile_m  = next power of two of m, 16..128                      rows = ceil(m / tile_m) tile_m
        tiles   = ceil(m / tile_m) ceil(n / 128)                       pad  = max(1, ceil(tiles / SMs) SMs / tiles)

    Waves are softened (exponent 0.3) because kernels split K and choose tiles to fill the last one. The form was chosen on
    the published kernel tables (``docs/accuracy.md``); it steps between m = 128 and 129 where a second row of tiles starts.
    """
    fmt: WeightFormat = weight_format(format)
    tile = 16.0 + 16.0 * (m > 16) + 32.0 * (m > 32) + 64.0 * (m > 64)
    row_tiles = np.ceil(m / tile)
    tiles = row_tiles * np.ceil(n / TILE_N)
    pad = np.maximum(1.0, np.ceil(tiles / gpu.sm_count) * gpu.sm_count / tiles)
    weights = n * k
    traffic = weights * fmt.bytes_per_weight + m * (k * fmt.activation_bytes + n * OUTPUT_BYTES)
    compute = row_tiles * tile * weights * pad**WAVE_EXPONENT * (2.0 / gpu.peak(fmt.compute))
    cycle_s = weights / (gpu.sm_count * gpu.boost_hz * gpu.clock_scale)
    return GemmTerms(traffic / gpu.memory_bytes_per_s, compute, k / 1024.0, m, cycle_s)


def gemm_law(p: Mapping[str, float], terms: GemmTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + tk k/1024 + ((memory/em + unpacking)^4 + (compute/ec)^4)^(1/4)``.

    ``t0_s`` launch floor; ``tk_s`` serial walk along k; ``em``, ``ec`` reached shares of bandwidth and peak. Kernels that
    unpack low-bit weights per row pay ``row_cycles`` SM cycles per weight for each row beyond the first, up to
    ``row_limit`` rows; past the limit another kernel runs, which takes ``wide_factor`` times the memory time (llama.cpp
    changes kernels after 8 rows, and its step may go down).
    """
    memory = terms.memory_s / p["em"]
    if p["row_cycles"] > 0.0:
        unpacking = p["row_cycles"] * terms.weight_cycle_s * np.maximum(terms.rows - 1.0, 0.0)
        memory = np.where(terms.rows <= p["row_limit"], memory + unpacking, memory * p["wide_factor"])
    busy = fourth_power_sum(memory, terms.compute_s / p["ec"])
    return floor_scale * p["t0_s"] + p["tk_s"] * terms.depth + busy


def fourth_power_sum(a: FloatArray, b: FloatArray) -> FloatArray:
    """``(a^4 + b^4)^(1/4)``: the larger of two times that overlap, rounded where they are equal."""
    a2, b2 = a * a, b * b
    return np.asarray(np.sqrt(np.sqrt(a2 * a2 + b2 * b2)))
