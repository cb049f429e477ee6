from __future__ import annotations

from typing import Any

from fake_kernels import product, public


@public
def gptq_marlin_repack(b_q_weight: Any, size_k: Any, size_n: Any, num_bits: Any, is_a_8bit: Any = False) -> Any:
    assert b_q_weight.shape == (size_k // 8, size_n) and num_bits == 4
    return b_q_weight


@public
def machete_prepack_B(b_q_weight: Any, a_type: Any, b_type: Any, group_scales_type: Any) -> Any:
    assert b_q_weight.values.flags.f_contiguous, "words are read column by column"
    return b_q_weight


@public
def machete_mm(
    a: Any, b_q: Any, b_type: Any, out_type: Any = None, b_group_scales: Any = None, b_group_zeros: Any = None,
    b_group_size: Any = None, b_channel_scales: Any = None, a_token_scales: Any = None, schedule: Any = None,
) -> Any:  # fmt: skip
    assert b_type == "uint4b8"
    return product(a, b_q, b_group_scales, b_group_size)
