"""One linear layer: ``m`` rows times a weight of ``n_out`` x ``k_in``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.formats import WeightFormat, weight_format
from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, find_entry, floor_s, positive
from specadvisor.ranges import FloatArray

OUTPUT_BYTES = 2.0
TILE_N = 128
ROW_TILE = 128
# The kernel that unpacks low-bit weights for many rows is bound by instructions, not by the bandwidth its time is written in:
# verification answers to the SM clock with an elasticity of 0.74-0.83 (RTX 3090, 4-bit k-quant, published clock grid). The
# bandwidth of a running GPU already has 0.27 of it.
WIDE_CLOCK_ELASTICITY = 0.53


class GemmTerms(NamedTuple):
    """What the law is made of, before any fitted number: seconds at datasheet speed, and shape facts."""

    memory_s: FloatArray
    compute_s: FloatArray
    row_padding: FloatArray
    wave_padding: FloatArray
    depth: FloatArray
    rows: FloatArray
    weight_cycle_s: FloatArray
    wide_slowdown: float = 1.0


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

    memory = (n k w + m k a + 2 m n) / bandwidth                  w, a: bytes per weight, activation (block scales in)
    compute = 2 m n k / peak
    tile_m = next power of two of m, 16..128                      row padding  = ceil(m / tile_m) tile_m / m
    tiles  = ceil(m / tile_m) ceil(n / 128)                       wave padding = max(1, ceil(tiles / SMs) SMs / tiles)
    """
    fmt: WeightFormat = weight_format(format)
    tile = 16.0 + 16.0 * (m > 16) + 32.0 * (m > 32) + 64.0 * (m > 64)
    row_tiles = np.ceil(m / tile)
    tiles = row_tiles * np.ceil(n / TILE_N)
    pad = np.maximum(1.0, np.ceil(tiles / gpu.sm_count) * gpu.sm_count / tiles)
    weights = n * k
    traffic = weights * fmt.bytes_per_weight + m * (k * fmt.activation_bytes + n * OUTPUT_BYTES)
    compute = m * weights * (2.0 / gpu.peak(fmt.compute))
    cycle_s = weights / (gpu.sm_count * gpu.boost_hz * gpu.clock_scale)
    slowdown = gpu.clock_scale**-WIDE_CLOCK_ELASTICITY
    return GemmTerms(traffic / gpu.memory_bytes_per_s, compute, row_tiles * tile / m, pad, k / 1024.0, m, cycle_s, slowdown)


def gemm_law(p: Mapping[str, float], terms: GemmTerms, floor_scale: float = 1.0) -> FloatArray:
    """One GEMM from its datasheet times::

        T = t0 + tk k/1024 + ((memory/em + unpacking)^norm + (compute padding^step jump / ec)^norm)^(1/norm)
        padding = row padding * wave padding^wave                    jump: only above 128 rows, 1 where the kernel has none

    ``t0_s`` launch floor; ``tk_s`` serial walk along k; ``em``, ``ec`` reached shares of bandwidth and peak. ``step`` says how
    much of the tile padding is paid (1: all of it; cuBLAS bf16 splits k and chooses tiles, fp8 kernels less so), ``wave`` the
    same for the last wave of tiles. With both at most 1 the time never falls as rows are added. The published form R4 is
    step 1, wave 0.3, norm 4, jump 1; freeing the four gains on shapes that were not fitted (``docs/accuracy.md``).

    Kernels that unpack low-bit weights per row pay ``row_cycles`` SM cycles per weight for each row beyond the first, up to
    ``row_limit`` rows; past the limit that cost stays as it is, or, with a ``wide_factor`` other than 1, another kernel runs
    that takes so many times the memory time, more at lower clocks (llama.cpp changes kernels after 8 rows, and its step may
    go down).
    """
    memory = terms.memory_s * (1.0 / p["em"])
    if p["row_cycles"] > 0.0:
        extra_rows = np.maximum(np.minimum(terms.rows, p["row_limit"]) - 1.0, 0.0)
        wide = (terms.rows > p["row_limit"]) & (p["wide_factor"] != 1.0)
        unpacking = p["row_cycles"] * terms.weight_cycle_s * extra_rows
        memory = np.where(wide, memory * (p["wide_factor"] * terms.wide_slowdown), memory + unpacking)
    step = p["step"]
    compute = terms.compute_s * terms.row_padding**step * terms.wave_padding ** (step * p["wave"]) * (1.0 / p["ec"])
    if p["jump"] > 1.0:
        compute = compute * np.where(terms.rows > ROW_TILE, p["jump"], 1.0)
    return floor_s(p, floor_scale) + p["tk_s"] * terms.depth + norm_sum(memory, compute, p["norm"])


def norm_sum(a: FloatArray, b: FloatArray, norm: float) -> FloatArray:
    """``(a^norm + b^norm)^(1/norm)``: the larger of two times that overlap, rounded where they are equal."""
    larger = np.maximum(a, b)
    ratio = np.minimum(a, b) / larger
    return np.asarray(larger * (1.0 + ratio**norm) ** (1.0 / norm))
