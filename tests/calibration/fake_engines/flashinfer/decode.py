from __future__ import annotations

from typing import Any

import numpy as np
from fake_kernels import attention, public


@public
def trtllm_batch_decode_with_kv_cache(
    query: Any, kv_cache: Any, workspace_buffer: Any, block_tables: Any, seq_lens: Any, max_seq_len: Any,
    bmm1_scale: Any = 1.0, bmm2_scale: Any = 1.0, window_left: Any = -1, out: Any = None, out_dtype: Any = None,
    o_sf_scale: Any = None, o_sf_vec_size: Any = None, sinks: Any = None, kv_layout: Any = "HND", enable_pdl: Any = None,
    backend: Any = "auto", q_len_per_req: Any = 1, o_scale: Any = 1.0, mask: Any = None, max_q_len: Any = None,
    cum_seq_lens_q: Any = None, skip_softmax_threshold_scale_factor: Any = None, kv_cache_sf: Any = None,
    uses_shared_paged_kv_idx: Any = True, lse: Any = None, return_lse: Any = False, bmm1_scale_log2: Any = None,
    multi_ctas_kv_counter_buffer: Any = None, enable_block_sparse_attention: Any = False, cp_world: Any = 1, cp_rank: Any = 0,
    causal_seqlens_kv_global: Any = None, bf16q_fp8kv_transform_mode: Any = None, request_order: Any = None,
    request_order_plan: Any = None, sparse_top_k: Any = 0, length_aware_schedule: Any = False,
) -> Any:  # fmt: skip
    assert kv_layout == "HND" and not workspace_buffer.values[:4096].any() and not multi_ctas_kv_counter_buffer.values.any()
    assert query.shape[0] == q_len_per_req * len(seq_lens.values) and out.dtype.size == 2
    k, v = kv_cache
    return attention(query, k, v, seq_lens, block_tables, scale=bmm1_scale, heads_first=True)


@public
def xqa_batch_decode_with_kv_cache(
    query: Any, kv_cache: Any, workspace_buffer: Any, block_tables: Any, seq_lens: Any, max_seq_len: Any,
    bmm1_scale: Any = 1.0, bmm2_scale: Any = 1.0, window_left: Any = -1, out: Any = None, sinks: Any = None,
    kv_layout: Any = "NHD", enable_pdl: Any = None, q_len_per_req: Any = 1, o_scale: Any = 1.0, mask: Any = None,
    kv_cache_sf: Any = None, q_cu_seq_lens: Any = None,
) -> Any:  # fmt: skip
    assert query.dtype.size == 2, "the query stays 16 bits wide"
    k, v = kv_cache
    seen = None
    if q_len_per_req > 1:
        assert mask.shape == (len(seq_lens.values), q_len_per_req, 2 * -(-q_len_per_req // 32))
        bits = np.unpackbits(mask.values.view(np.uint8), axis=2, bitorder="little")
        seen = bits[0, :, :q_len_per_req].astype(bool)
    return attention(query, k, v, seq_lens, block_tables, scale=bmm1_scale, seen=seen)
