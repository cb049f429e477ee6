from __future__ import annotations

from typing import Any

import numpy as np
from fake_kernels import product, public


@public
def marlin_permute_scales(s: Any, size_k: Any, size_n: Any, group_size: Any, is_a_8bit: Any = False) -> Any:
    order = np.arange(64).reshape(8, 8).T.ravel()
    return s._same(s.values.reshape(-1, 64)[:, order].reshape(-1, size_n))


def unpermuted(scales: Any) -> Any:
    order = np.argsort(np.arange(64).reshape(8, 8).T.ravel())
    return scales._same(scales.values.reshape(-1, 64)[:, order].reshape(scales.shape))


@public
def apply_gptq_marlin_linear(
    input: Any, weight: Any, weight_scale: Any, weight_zp: Any, workspace: Any, wtype: Any, output_size_per_partition: Any,
    input_size_per_partition: Any, input_global_scale: Any = None, bias: Any = None, use_fp32_reduce: Any = True,
    input_dtype: Any = None,
) -> Any:  # fmt: skip
    assert wtype == "uint4b8" and weight_zp.shape == (0,) and workspace.shape == (4 * 132,)
    assert (output_size_per_partition, input_size_per_partition) == (weight.shape[1], 8 * weight.shape[0])
    return product(input, weight, unpermuted(weight_scale), input_size_per_partition // weight_scale.shape[0])
