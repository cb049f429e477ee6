from __future__ import annotations

from typing import Any

from fake_kernels import attention, public


@public
def get_scheduler_metadata(
    batch_size: Any, max_seqlen_q: Any, max_seqlen_k: Any, num_heads_q: Any, num_heads_kv: Any, headdim: Any,
    cache_seqlens: Any, qkv_dtype: Any = None, headdim_v: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k_new: Any = None,
    cache_leftpad: Any = None, page_size: Any = None, max_seqlen_k_new: Any = 0, causal: Any = False,
    window_size: Any = (-1, -1), has_softcap: Any = False, num_splits: Any = 0, pack_gqa: Any = None, sm_margin: Any = 0,
) -> Any:  # fmt: skip
    return batch_size, max_seqlen_q, causal, num_splits


@public
def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, max_seqlen_q: Any, cu_seqlens_q: Any, max_seqlen_k: Any, cu_seqlens_k: Any = None,
    seqused_k: Any = None, q_v: Any = None, dropout_p: Any = 0.0, softmax_scale: Any = None, causal: Any = False,
    window_size: Any = None, softcap: Any = 0.0, alibi_slopes: Any = None, deterministic: Any = False,
    return_attn_probs: Any = False, block_table: Any = None, return_softmax_lse: Any = False, out: Any = None,
    scheduler_metadata: Any = None, q_descale: Any = None, k_descale: Any = None, v_descale: Any = None, num_splits: Any = 0,
    output_scale: Any = None, fa_version: Any = 2, s_aux: Any = None, cp_world_size: Any = 1, cp_rank: Any = 0,
    cp_tot_seqused_k: Any = None, mask_mod: Any = None, block_sparse_tensors: Any = None, aux_tensors: Any = None,
    aux_tensor_leading_dims: Any = None, dynamic_causal: Any = None, gather_kv_indices: Any = None,
    gather_kv_valid_length: Any = None,
) -> Any:  # fmt: skip
    assert causal and seqused_k is not None and block_table is not None
    assert fa_version == 3 or (k.dtype.size == 2 and num_splits <= 1), "FlashAttention-2 has no 8-bit cache and no splits"
    assert fa_version == 2 or scheduler_metadata == (len(seqused_k.values), max_seqlen_q, True, num_splits)
    assert q.dtype == k.dtype and q.shape[0] == cu_seqlens_q.values[-1]
    assert k.dtype.size == 2 or q_descale.shape == k_descale.shape == v_descale.shape == (len(seqused_k.values), k.shape[2])
    return attention(q, k, v, seqused_k, block_table, scale=softmax_scale)
