from __future__ import annotations

from typing import Any

from fake_kernels import attention, public


@public
def flash_attn_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, qv: Any = None, rotary_cos: Any = None,
    rotary_sin: Any = None, cache_seqlens: Any = None, cache_batch_idx: Any = None, cache_leftpad: Any = None,
    page_table: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k_new: Any = None, max_seqlen_q: Any = None,
    rotary_seqlens: Any = None, q_descale: Any = None, k_descale: Any = None, v_descale: Any = None,
    softmax_scale: Any = None, causal: Any = False, window_size: Any = (-1, -1), attention_chunk: Any = None,
    softcap: Any = 0.0, rotary_interleaved: Any = True, scheduler_metadata: Any = None, num_splits: Any = 0,
    pack_gqa: Any = None, sm_margin: Any = 0, return_softmax_lse: Any = False, sinks: Any = None, score_mod: Any = None,
    aux_tensors: Any = None, ver: Any = 3,
) -> Any:  # fmt: skip
    assert causal and q.dtype == k_cache.dtype
    return attention(q, k_cache, v_cache, cache_seqlens, page_table, scale=softmax_scale)
