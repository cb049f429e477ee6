"""Published numbers that the roofline helpers must give."""

from __future__ import annotations

import numpy as np
import pytest

from specadvisor.formats import WEIGHT_FORMATS
from specadvisor.kernels import distinct_experts
from specadvisor.kernels.roofline import (
    attention_intensity,
    gemm_roofline,
    hidden_context,
    k_g1,
    k_g2,
    mla_intensity,
    ridge_rows,
)


def test_nvidia_part_1_table_2():
    """N = 8192, K = 512, NVFP4 in with its block scales, FP8 out, GB300: 15 PFLOP/s, 8 TB/s; microseconds as printed."""
    nvfp4 = WEIGHT_FORMATS["nvfp4"].bytes_per_weight
    times = gemm_roofline(
        [256, 2048, 16384], 8192, 512, peak=15e15, bandwidth=8e12, input_bytes=nvfp4, weight_bytes=nvfp4, output_bytes=1.0
    )
    assert [round(x, 2) for x in times.math_s * 1e6] == [0.14, 1.15, 9.16]
    assert [round(x, 2) for x in times.read_s * 1e6] == [0.30, 0.37, 0.88]
    assert times.read_s[2] * 1e6 == pytest.approx(0.89, abs=0.006)
    assert [float(f"{x:.3g}") for x in times.write_s * 1e6] == [0.262, 2.1, 16.8]


@pytest.mark.parametrize(
    ("gpu", "format", "rows"),
    [("h100_sxm", "bf16", 295), ("h200_sxm", "bf16", 206), ("a100_sxm_80gb", "bf16", 153), ("h100_sxm", "w4a16", 76)],
)
def test_ridge(gpu, format, rows):
    assert round(ridge_rows(gpu, format)) == rows


def test_eight_tokens_are_compute_bound_at_an_eighth_of_the_batch():
    ridge = ridge_rows("h100_sxm")
    assert k_g1(ridge, ridge / 8) == 7.0 and k_g1(ridge, ridge) == 0.0
    assert k_g1(ridge, [1, 32, 36, 64, 295, 400]).tolist() == [294, 8, 7, 3, 0, 0]


def test_free_tokens_of_a_128_row_tile():
    table = {1: 127, 2: 63, 3: 41, 4: 31, 5: 24, 6: 20, 7: 17, 8: 15, 10: 11, 12: 9, 14: 8, 16: 7, 20: 5, 24: 4, 32: 3, 40: 2}
    table |= {48: 1, 64: 1, 128: 0}
    assert k_g2(list(table)).tolist() == list(table.values())
    assert k_g2(8, tile_rows=192) == 23


def test_attention_intensity():
    assert attention_intensity(8, 4, "bf16") == 32.0
    assert attention_intensity(8, 4, "fp8") == 64.0
    assert mla_intensity(128, 1, "bf16") == pytest.approx(1.889 * 128, rel=1e-3)


@pytest.mark.parametrize(
    ("experts", "top_k", "active"),
    [
        (128, 8, [8, 15.5, 29, 52, 82, 112, 126, 128]),
        (256, 8, [8, 16, 31, 57, 102, 163, 222, 252]),
        (512, 10, [10, 20, 39, 75, 139, 240, 367, 471]),
        (128, 6, [6, 12, 22, 41, 69, 100, 122, 128]),
    ],
)
def test_distinct_experts_table(experts, top_k, active):
    found = distinct_experts([1, 2, 4, 8, 16, 32, 64, 128], experts, top_k)
    assert found == pytest.approx(active, abs=0.52)


def test_hidden_context_of_an_8b_model():
    """Llama-3.1-8B in bf16 on H100: 8.0e9 active parameters, 128 KiB of cache per token."""
    assert hidden_context("h100_sxm", 8.0e9, 131072, [1, 5]) == pytest.approx([414, 5 * 414], rel=0.002)


def test_skewed_routing_needs_fewer_experts():
    uniform, skewed = (distinct_experts(np.array([1, 8, 64]), 128, 8, skew) for skew in (0.0, 1.0))
    assert uniform[0] == pytest.approx(8) and skewed[0] == pytest.approx(8)
    assert (skewed[1:] < uniform[1:]).all()
