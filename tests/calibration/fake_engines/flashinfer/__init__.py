"""FlashInfer 0.7: the functions that the calibration calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_kernels import attention, public


class BatchPrefillWithPagedKVCacheWrapper:
    @public
    def __init__(
        self, float_workspace_buffer: Any, kv_layout: Any = "NHD", use_cuda_graph: Any = False, qo_indptr_buf: Any = None,
        paged_kv_indptr_buf: Any = None, paged_kv_indices_buf: Any = None, paged_kv_last_page_len_buf: Any = None,
        custom_mask_buf: Any = None, mask_indptr_buf: Any = None, backend: Any = "auto", jit_args: Any = None,
        jit_kwargs: Any = None, variant_owns_mask: Any = False, max_total_num_rows: Any = None,
    ) -> None:  # fmt: skip
        assert kv_layout == "NHD" and use_cuda_graph and float_workspace_buffer.values.size >= 128 << 20
        self._indices_buffer = paged_kv_indices_buf

    @public
    def plan(
        self, qo_indptr: Any, paged_kv_indptr: Any, paged_kv_indices: Any, paged_kv_last_page_len: Any, num_qo_heads: Any,
        num_kv_heads: Any, head_dim_qk: Any, page_size: Any, head_dim_vo: Any = None, custom_mask: Any = None,
        packed_custom_mask: Any = None, causal: Any = False, pos_encoding_mode: Any = "NONE",
        use_fp16_qk_reduction: Any = False, sm_scale: Any = None, window_left: Any = -1, logits_soft_cap: Any = None,
        rope_scale: Any = None, rope_theta: Any = None, q_data_type: Any = "float16", kv_data_type: Any = None,
        o_data_type: Any = None, non_blocking: Any = True, prefix_len_ptr: Any = None, token_pos_in_items_ptr: Any = None,
        token_pos_in_items_len: Any = 0, max_item_len_ptr: Any = None, seq_lens: Any = None, seq_lens_q: Any = None,
        block_tables: Any = None, max_token_per_sequence: Any = None, max_sequence_kv: Any = None,
        fixed_split_size: Any = None, disable_split_kv: Any = False, uniform_q_len: Any = None, use_token_head_sf: Any = False,
    ) -> None:  # fmt: skip
        assert causal and len(paged_kv_indices.values) <= len(self._indices_buffer.values)
        self._types, self._scale = (q_data_type, kv_data_type), sm_scale
        ends = np.asarray(paged_kv_indptr)
        counts = np.diff(ends)
        self._table = np.zeros((len(counts), counts.max()), np.int32)
        for row, first, count in zip(self._table, ends, counts, strict=False):
            row[:count] = paged_kv_indices.values[first : first + count]
        self._lengths = (counts - 1) * page_size + np.asarray(paged_kv_last_page_len)

    @public
    def run(
        self, q: Any, paged_kv_cache: Any, *args: Any, q_scale: Any = None, k_scale: Any = None, v_scale: Any = None,
        out: Any = None, lse: Any = None, return_lse: Any = False, lse_base: Any = "log2", lse_layout: Any = "NH",
        enable_pdl: Any = None, window_left: Any = None, sinks: Any = None, kv_cache_sf: Any = None,
        skip_softmax_threshold_scale_factor: Any = None, use_fp16_softmax: Any = None, uses_spcompress: Any = None,
    ) -> Any:  # fmt: skip
        k, v = paged_kv_cache
        assert (q.dtype, k.dtype) == self._types
        return attention(q, k, v, self._lengths, self._table, scale=self._scale)
