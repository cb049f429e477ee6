"""flash-attn 2.8: the function that the calibration calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_kernels import attention, public


@public
def flash_attn_func(
    q: Any, k: Any, v: Any, dropout_p: Any = 0.0, softmax_scale: Any = None, causal: Any = False,
    window_size: Any = (-1, -1), softcap: Any = 0.0, alibi_slopes: Any = None, deterministic: Any = False,
    return_attn_probs: Any = False,
) -> Any:  # fmt: skip
    assert causal
    batch, tokens, heads, dim = q.shape
    return attention(q.view(batch * tokens, heads, dim), k, v, np.full(batch, k.shape[1]), scale=dim**-0.5)
