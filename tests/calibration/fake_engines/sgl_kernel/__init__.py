"""sgl-kernel 0.3: the functions that the calibration calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_kernels import product, public


@public
def gptq_marlin_repack(b_q_weight: Any, perm: Any, size_k: Any, size_n: Any, num_bits: Any) -> Any:
    assert b_q_weight.shape == (size_k // 8, size_n) and num_bits == 4
    return b_q_weight


@public
def gptq_marlin_gemm(
    a: Any, c: Any, b_q_weight: Any, b_scales: Any, global_scale: Any, b_zeros: Any, g_idx: Any, perm: Any, workspace: Any,
    b_q_type: Any, size_m: Any, size_n: Any, size_k: Any, is_k_full: Any = True, use_atomic_add: Any = False,
    use_fp32_reduce: Any = False, is_zp_float: Any = False,
) -> Any:  # fmt: skip
    assert (size_m, size_k) == a.shape and (size_k, size_n) == (8 * b_q_weight.shape[0], b_q_weight.shape[1])
    order = np.argsort(np.arange(64).reshape(8, 8).T.ravel())
    scales = b_scales._same(b_scales.values.reshape(-1, 64)[:, order].reshape(b_scales.shape))
    return product(a, b_q_weight, scales, size_k // b_scales.shape[0])
