"""How the engines call attention: one function per package, from operands to a call on one of their sets.

Checked against the sources of vLLM 0.33, SGLang 0.5.23, sgl-kernel 0.3.21 and sglang-kernel 0.4.10, FlashInfer 0.7.4,
flash-attn 2.8.3 and torch 2.13 (``benchmarks/engine_signatures.py``). Plans, workspaces and schedules are made here, outside
what is timed, as the engines make them once for all layers of a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration.plan import AttentionPoint

WORKSPACE_BYTES = 256 << 20
COUNTER_BYTES = 1 << 20
# vLLM's limit inside captured graphs (attention_config.flash_attn_max_num_splits_for_cuda_graph).
VLLM_GRAPH_SPLITS = 32


@dataclass(frozen=True)
class Operands:
    """Tensors of one point: q [batch * query_tokens, heads, dim]; every cache a (K, V) pair.

    Pages: [pages, page, kv_heads, dim], with ``heads_first`` [pages, kv_heads, page, dim]; ``page`` 0 is a contiguous cache
    [batch, context, kv_heads, dim]. ``table`` [batch, pages of a sequence] holds shuffled pages. ``lengths`` [batch] keys,
    ``starts`` [batch + 1] first query row of each sequence, both int32; their host copies are arrays.
    """

    torch: Any
    point: AttentionPoint
    page: int
    q: Any
    caches: list[tuple[Any, Any]]
    table: Any
    lengths: Any
    starts: Any
    host_table: NDArray[np.int32]
    host_lengths: NDArray[np.int32]
    heads_first: bool = False

    @property
    def heads(self) -> int:
        return self.point.kv_heads * self.point.group

    @property
    def scale(self) -> float:
        return float(self.point.head_dim**-0.5)

    @property
    def eight_bit(self) -> bool:
        return self.point.kv_format == "fp8"

    def zeros(self, size: int) -> Any:
        """A zeroed workspace: kernels keep semaphores in it."""
        return self.torch.zeros(size, dtype=self.torch.uint8, device="cuda")

    def output(self) -> Any:
        """Room for the result, 16 bits wide whatever the query is."""
        return self.torch.empty(tuple(self.q.shape), dtype=self.torch.bfloat16, device="cuda")

    def on_device(self, values: Any) -> Any:
        return self.torch.from_numpy(np.asarray(values, np.int32)).to("cuda")


def accepted(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """Those of ``arguments`` that ``function`` has: versions differ."""
    return {name: value for name, value in arguments.items() if name in signature(function).parameters}


Call = Callable[[int], Any]
Prepare = Callable[[Operands], Call]


def _descales(o: Operands, *names: str) -> dict[str, Any]:
    """Scales of 8-bit operands [batch, kv_heads], all one."""
    if not o.eight_bit:
        return {}
    ones = o.torch.ones((o.point.batch, o.point.kv_heads), dtype=o.torch.float32, device="cuda")
    return dict.fromkeys(names, ones)


def vllm_flash_attention_3(o: Operands) -> Call:
    """With the schedule that vLLM computes once a step; under captured graphs the number of splits has a limit."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func, get_scheduler_metadata

    p = o.point
    schedule = get_scheduler_metadata(
        batch_size=p.batch, max_seqlen_q=p.query_tokens, max_seqlen_k=p.context, num_heads_q=o.heads, num_heads_kv=p.kv_heads,
        headdim=p.head_dim, cache_seqlens=o.lengths, qkv_dtype=o.q.dtype, cu_seqlens_q=o.starts, page_size=o.page, causal=True,
        window_size=(-1, -1), num_splits=VLLM_GRAPH_SPLITS,
    )  # fmt: skip
    extra = _descales(o, "q_descale", "k_descale", "v_descale")
    return lambda i: flash_attn_varlen_func(
        q=o.q, k=o.caches[i][0], v=o.caches[i][1], cu_seqlens_q=o.starts, max_seqlen_q=p.query_tokens, seqused_k=o.lengths,
        max_seqlen_k=p.context, softmax_scale=o.scale, causal=True, block_table=o.table, scheduler_metadata=schedule,
        num_splits=VLLM_GRAPH_SPLITS, fa_version=3, **extra,
    )  # fmt: skip


def vllm_flash_attention_2(o: Operands) -> Call:
    """vLLM before Hopper and on workstation Blackwell, 16-bit caches only."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func

    p = o.point
    return lambda i: flash_attn_varlen_func(
        q=o.q, k=o.caches[i][0], v=o.caches[i][1], cu_seqlens_q=o.starts, max_seqlen_q=p.query_tokens, seqused_k=o.lengths,
        max_seqlen_k=p.context, softmax_scale=o.scale, causal=True, block_table=o.table, fa_version=2,
    )  # fmt: skip


def sgl_flash_attention_3(o: Operands) -> Call:
    """SGLang on Hopper; SGLang itself may load the same kernel from the Hugging Face hub."""
    from sgl_kernel.flash_attn import flash_attn_with_kvcache

    p, extra = o.point, _descales(o, "k_descale", "v_descale")
    return lambda i: flash_attn_with_kvcache(
        q=o.q, k_cache=o.caches[i][0], v_cache=o.caches[i][1], page_table=o.table, cache_seqlens=o.lengths,
        cu_seqlens_q=o.starts, max_seqlen_q=p.query_tokens, softmax_scale=o.scale, causal=True, **extra,
    )  # fmt: skip


def flashinfer_paged(o: Operands) -> Call:
    """FlashInfer's FlashAttention-2 template for several query tokens, planned for a captured graph.

    Its decode wrapper with tensor cores runs the same kernel.
    """
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    torch, p = o.torch, o.point
    counts = -(-o.host_lengths // o.page)
    used = np.concatenate([row[:count] for row, count in zip(o.host_table, counts, strict=True)])
    plan = {
        "qo_indptr": np.arange(p.batch + 1) * p.query_tokens,
        "paged_kv_indptr": np.concatenate([[0], np.cumsum(counts)]),
        "paged_kv_indices": used,
        "paged_kv_last_page_len": o.host_lengths - (counts - 1) * o.page,
    }
    buffers = {f"{name}_buf": o.on_device(values) for name, values in plan.items()}
    wrapper = BatchPrefillWithPagedKVCacheWrapper(
        o.zeros(WORKSPACE_BYTES), "NHD", use_cuda_graph=True, backend="fa2", **buffers
    )
    host = {name: torch.from_numpy(np.asarray(values, np.int32)) for name, values in plan.items()}
    wrapper.plan(
        **host | {"paged_kv_indices": buffers["paged_kv_indices_buf"]}, num_qo_heads=o.heads, num_kv_heads=p.kv_heads,
        head_dim_qk=p.head_dim, page_size=o.page, causal=True, sm_scale=o.scale, q_data_type=o.q.dtype,
        kv_data_type=o.caches[0][0].dtype,
    )  # fmt: skip
    return lambda i: wrapper.run(o.q, o.caches[i])


def flashinfer_trtllm_gen(o: Operands) -> Call:
    """What vLLM, SGLang and TensorRT-LLM run on datacentre Blackwell, also for verification (``q_len_per_req`` tokens)."""
    from flashinfer.decode import trtllm_batch_decode_with_kv_cache as decode

    p, out, workspace = o.point, o.output(), o.zeros(WORKSPACE_BYTES)
    # Newer versions zero a fresh counter in every call unless they are given one.
    extra = accepted(decode, multi_ctas_kv_counter_buffer=o.zeros(COUNTER_BYTES))
    return lambda i: decode(
        query=o.q, kv_cache=o.caches[i], workspace_buffer=workspace, block_tables=o.table, seq_lens=o.lengths,
        max_seq_len=p.context, bmm1_scale=o.scale, bmm2_scale=1.0, out=out, q_len_per_req=p.query_tokens, **extra,
    )  # fmt: skip


def flashinfer_xqa(o: Operands) -> Call:
    """TensorRT-LLM's generation kernel before Blackwell and on workstation parts, in FlashInfer's build."""
    from flashinfer.decode import xqa_batch_decode_with_kv_cache as decode

    p, out, workspace = o.point, o.output(), o.zeros(WORKSPACE_BYTES)
    mask = None
    if p.query_tokens > 1:
        rows = np.broadcast_to(_draft_mask(p.query_tokens), (p.batch, p.query_tokens, 2 * -(-p.query_tokens // 32)))
        mask = o.torch.from_numpy(rows.copy()).to("cuda")
    return lambda i: decode(
        query=o.q, kv_cache=o.caches[i], workspace_buffer=workspace, block_tables=o.table, seq_lens=o.lengths,
        max_seq_len=p.context, bmm1_scale=o.scale, bmm2_scale=1.0, out=out, kv_layout="NHD", q_len_per_req=p.query_tokens,
        mask=mask,
    )  # fmt: skip


def _draft_mask(tokens: int) -> NDArray[np.uint16]:
    """Bit j of row i: new token i sees new token j; rows are padded to 32 bits."""
    seen = np.tri(tokens, 32 * -(-tokens // 32), dtype=bool)
    return np.packbits(seen, axis=1, bitorder="little").view("<u2")


def flash_attention_2(o: Operands) -> Call:
    """Transformers with flash-attn; the causal mask is aligned to the last key."""
    from flash_attn import flash_attn_func

    q = o.q.view(o.point.batch, o.point.query_tokens, o.heads, o.point.head_dim)
    return lambda i: flash_attn_func(q, *o.caches[i], causal=True)


def torch_attention(o: Operands) -> Call:
    """Transformers without flash-attn. ``is_causal`` of torch is aligned to the first key, so the mask is named instead."""
    from torch.nn.attention.bias import causal_lower_right
    from torch.nn.functional import scaled_dot_product_attention

    p = o.point
    q = o.q.view(p.batch, p.query_tokens, o.heads, p.head_dim).transpose(1, 2)
    caches = [(k.transpose(1, 2), v.transpose(1, 2)) for k, v in o.caches]
    mask = causal_lower_right(p.query_tokens, p.context)
    return lambda i: scaled_dot_product_attention(q, *caches[i], attn_mask=mask, enable_gqa=True).transpose(1, 2)
