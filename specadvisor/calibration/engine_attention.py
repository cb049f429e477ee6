"""The engines' own attention kernels, timed where their packages are installed. Each result is compared with float64 first.

Calls follow vLLM 0.1x (``vllm_flash_attn``), FlashInfer 0.2-0.7, sgl-kernel 0.3, flash-attn 2.8 and torch 2.x. Where a version
differs, the call fails or the comparison does, and the kernel is reported as not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.calibration import reference
from specadvisor.calibration.checks import require
from specadvisor.calibration.plan import AttentionPoint

PAGE = 16


@dataclass(frozen=True)
class Operands:
    """Tensors of one point: q [batch * query_tokens, heads, dim]; each cache a (K, V) pair [pages, PAGE, kv_heads, dim]."""

    torch: Any
    point: AttentionPoint
    q: Any
    caches: list[tuple[Any, Any]]
    table: Any
    lengths: Any
    starts: Any

    @property
    def contiguous(self) -> tuple[int, int, int, int]:
        """Shape of a cache whose pages lie in order: [batch, context, kv_heads, dim]."""
        p = self.point
        return p.batch, p.context, p.kv_heads, p.head_dim


Call = Callable[[int], Any]


@dataclass(frozen=True)
class EngineKernel:
    """One package's kernel. ``capabilities``: first and last compute capability on which the engine chooses it.

    ``packs``: query rows that share a KV head share its pass also for several query tokens; where they do not, those rows
    are kept out of the fit, whose law packs.
    """

    engine: str
    module: str
    name: str
    capabilities: tuple[int, int]
    prepare: Callable[[Operands, int], Call]
    packs: bool = True

    def tile_rows(self, rows: int) -> int:
        """Rows of one pass over the cache: the ladder of FlashInfer, and FlashAttention-3's two tiles."""
        ladder = (16, 64, 128) if "flashinfer" in self.module else (64, 128)
        return next((tile for tile in ladder if rows <= tile), ladder[-1])


def _vllm(o: Operands, capability: int) -> Call:
    from vllm.vllm_flash_attn import flash_attn_varlen_func

    p, version = o.point, 3 if capability == 90 else 2
    return lambda i: flash_attn_varlen_func(
        q=o.q, k=o.caches[i][0], v=o.caches[i][1], cu_seqlens_q=o.starts, max_seqlen_q=p.query_tokens, seqused_k=o.lengths,
        max_seqlen_k=p.context, softmax_scale=p.head_dim**-0.5, causal=True, block_table=o.table, fa_version=version,
    )  # fmt: skip


def _flashinfer(o: Operands, capability: int) -> Call:
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    torch, p = o.torch, o.point
    workspace = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
    wrapper = BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
    pages = torch.arange(p.batch + 1, dtype=torch.int32) * (p.context // PAGE)
    last = torch.full((p.batch,), PAGE, dtype=torch.int32)
    wrapper.plan(
        o.starts.cpu(), pages, o.table.flatten(), last, p.kv_heads * p.group, p.kv_heads, p.head_dim, PAGE, causal=True,
        q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16,
    )  # fmt: skip
    return lambda i: wrapper.run(o.q, o.caches[i])


def _sgl_kernel(o: Operands, capability: int) -> Call:
    from sgl_kernel.flash_attn import flash_attn_with_kvcache

    p = o.point
    return lambda i: flash_attn_with_kvcache(
        o.q, o.caches[i][0], o.caches[i][1], cache_seqlens=o.lengths, page_table=o.table, cu_seqlens_q=o.starts,
        max_seqlen_q=p.query_tokens, softmax_scale=p.head_dim**-0.5, causal=True,
    )  # fmt: skip


def _flash_attn(o: Operands, capability: int) -> Call:
    from flash_attn import flash_attn_with_kvcache

    p = o.point
    q = o.q.view(p.batch, p.query_tokens, -1, p.head_dim)
    views = [(k.view(o.contiguous), v.view(o.contiguous)) for k, v in o.caches]
    return lambda i: flash_attn_with_kvcache(q, *views[i], cache_seqlens=o.lengths, causal=True)


def _torch(o: Operands, capability: int) -> Call:
    p = o.point
    q = o.q.view(p.batch, p.query_tokens, -1, p.head_dim)
    views = [(k.view(o.contiguous), v.view(o.contiguous)) for k, v in o.caches]
    forward = o.torch.ops.aten._flash_attention_forward
    return lambda i: forward(q, *views[i], None, None, p.query_tokens, p.context, 0.0, True, False)[0]


KERNELS = (
    EngineKernel("vllm", "vllm.vllm_flash_attn", "FlashAttention-3", (90, 90), _vllm),
    EngineKernel("vllm", "vllm.vllm_flash_attn", "FlashAttention-2", (80, 89), _vllm, packs=False),
    EngineKernel("vllm", "vllm.vllm_flash_attn", "FlashAttention-2", (120, 129), _vllm, packs=False),
    EngineKernel("vllm", "flashinfer", "FlashInfer paged prefill", (100, 109), _flashinfer),
    EngineKernel("sglang", "sgl_kernel", "FlashAttention-3", (90, 90), _sgl_kernel),
    EngineKernel("sglang", "flashinfer", "FlashInfer paged prefill", (80, 129), _flashinfer),
    EngineKernel("tensorrt_llm", "flashinfer", "FlashInfer paged prefill", (100, 109), _flashinfer),
    EngineKernel("transformers", "flash_attn", "FlashAttention-2", (80, 129), _flash_attn, packs=False),
    EngineKernel("transformers", "torch", "torch FlashAttention-2", (80, 129), _torch, packs=False),
)


def make_operands(torch: Any, point: AttentionPoint, sets: int) -> Operands:
    """Random operands; pages lie in order, so that paged and contiguous kernels read the same cache."""
    heads, pages = point.kv_heads * point.group, point.batch * (point.context // PAGE)
    integers: dict[str, Any] = {"dtype": torch.int32, "device": "cuda"}
    shape = (pages, PAGE, point.kv_heads, point.head_dim)

    def random(*size: int) -> Any:
        return torch.randn(*size, dtype=torch.bfloat16, device="cuda")

    return Operands(
        torch=torch,
        point=point,
        q=random(point.batch * point.query_tokens, heads, point.head_dim),
        caches=[(random(*shape), random(*shape)) for _ in range(sets)],
        table=torch.arange(pages, **integers).view(point.batch, -1),
        lengths=torch.full((point.batch,), point.context, **integers),
        starts=torch.arange(point.batch + 1, **integers) * point.query_tokens,
    )


def check_kernel(torch: Any, kernel: EngineKernel, head_dim: int, capability: int) -> None:
    """A small point against float64; raises ``CheckFailed``, or whatever the package raises."""
    point = AttentionPoint(2, 5, 320, 4, 2, head_dim)
    o = make_operands(torch, point, 1)
    out = kernel.prepare(o, capability)(0)

    def host(tensor: Any, *shape: int) -> Any:
        return tensor.float().cpu().numpy().astype(float).reshape(shape)

    q_shape = (point.batch, point.query_tokens, point.kv_heads * point.group, head_dim)
    k, v = (host(c, *o.contiguous) for c in o.caches[0])
    want = reference.attention(host(o.q, *q_shape), k, v, np.full(point.batch, point.context))
    require(f"{kernel.name} of {kernel.module}", reference.relative_error(host(out, *q_shape), want))
