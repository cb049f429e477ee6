from __future__ import annotations

from typing import Any

from torch import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    import numpy as np
    from fake_kernels import attention

    if attn_mask is None or not enable_gqa:
        raise ValueError("top-left causal or without shared heads: no verification step")
    batch, heads, tokens, dim = query.shape
    rows = query.transpose(1, 2).reshape(batch * tokens, heads, dim)
    k, v = key.transpose(1, 2), value.transpose(1, 2)
    out = attention(rows, k, v, np.full(batch, key.shape[2]), scale=scale or dim**-0.5)
    return out.reshape(batch, tokens, heads, dim).transpose(1, 2) if out.values.size else out.reshape(0, 1, 1)
