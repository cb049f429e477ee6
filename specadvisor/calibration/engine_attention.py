"""The engines' own attention kernels: which engine runs which on which GPU, their operands, and the check against float64.

Sources of the choice: vLLM 0.33 ``platforms/cuda.py`` and ``fa_utils.py``, SGLang 0.5.23 ``get_default_attn_backend``,
TensorRT-LLM as in ``profiles/engines/tensorrt_llm.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.calibration import engine_calls as calls
from specadvisor.calibration import reference
from specadvisor.calibration.checks import BF16_TOLERANCE, require
from specadvisor.calibration.engine_calls import Call, Operands, Prepare
from specadvisor.calibration.plan import AttentionPoint

# Kernels that multiply an 8-bit cache in 8 bits round the probabilities to e4m3 too, by about 2.6% (root mean square).
TOLERANCE = {"bf16": BF16_TOLERANCE, "fp8": 5e-2}
BOTH = ("bf16", "fp8")


@dataclass(frozen=True)
class EngineKernel:
    """One package's kernel. ``capabilities``: first and last compute capability on which ``engine`` chooses it.

    ``tiles``: per head size up to the first number, the query rows of one pass over the cache (the ladder that the engine's
    facts state). ``page``: tokens per page as the engine has by default, 0 for a contiguous cache; ``heads_first`` pages are
    [kv_heads, page, dim]. ``packs``: query rows that share a KV head share its pass also for several query tokens; where they
    do not, those rows are kept out of the fit, whose law packs. ``narrow_query``: the query is fp8 too where the cache is.
    """

    engine: str
    module: str
    capabilities: tuple[int, int]
    page: int
    name: str
    prepare: Prepare
    tiles: tuple[tuple[int, tuple[int, ...]], ...]
    formats: tuple[str, ...] = BOTH
    heads_first: bool = False
    packs: bool = True
    narrow_query: bool = False

    def tile_rows(self, rows: int, head_dim: int) -> int:
        """The first tile that holds ``rows``, else the largest."""
        ladder = next((tiles for limit, tiles in self.tiles if head_dim <= limit), self.tiles[-1][1])
        return next((tile for tile in ladder if rows <= tile), ladder[-1])

    def calls(self, torch: Any, point: AttentionPoint, sets: int) -> Call:
        """A call on each of ``sets`` random caches of this point."""
        return self.prepare(make_operands(torch, self, point, sets, [point.context] * point.batch))


# What the kernels are, whoever calls them.
_FA2: dict[str, Any] = {
    "name": "FlashAttention-2", "tiles": ((256, (128,)),), "formats": ("bf16",), "packs": False,
}  # fmt: skip
_FA3: dict[str, Any] = {"name": "FlashAttention-3", "tiles": ((96, (192,)), (256, (128,))), "narrow_query": True}
_FLASHINFER: dict[str, Any] = {
    "name": "FlashInfer paged", "prepare": calls.flashinfer_paged, "tiles": ((128, (16, 64, 128)), (256, (16, 64))),
}  # fmt: skip
_TRTLLM_GEN: dict[str, Any] = {
    "name": "trtllm-gen", "prepare": calls.flashinfer_trtllm_gen, "tiles": ((256, (8, 16, 32, 64, 128)),),
    "heads_first": True, "narrow_query": True,
}  # fmt: skip
_XQA: dict[str, Any] = {"name": "XQA", "prepare": calls.flashinfer_xqa, "tiles": ((256, (16, 32)),)}
_XQA_HOPPER = _XQA | {"tiles": ((256, (8, 16, 32, 64)),)}
_FP8_ONLY = {"formats": ("fp8",)}

KERNELS = (
    EngineKernel("vllm", "vllm.vllm_flash_attn", (90, 90), 16, prepare=calls.vllm_flash_attention_3, **_FA3),
    EngineKernel("vllm", "vllm.vllm_flash_attn", (80, 89), 16, prepare=calls.vllm_flash_attention_2, **_FA2),
    EngineKernel("vllm", "vllm.vllm_flash_attn", (110, 129), 16, prepare=calls.vllm_flash_attention_2, **_FA2),
    EngineKernel("vllm", "flashinfer", (100, 109), 16, **_TRTLLM_GEN),
    EngineKernel("vllm", "flashinfer", (89, 89), 16, **_FLASHINFER | _FP8_ONLY),
    EngineKernel("vllm", "flashinfer", (120, 129), 16, **_XQA | _FP8_ONLY),
    EngineKernel("sglang", "sgl_kernel", (90, 90), 1, prepare=calls.sgl_flash_attention_3, **_FA3),
    EngineKernel("sglang", "flashinfer", (100, 109), 64, **_TRTLLM_GEN),
    EngineKernel("sglang", "flashinfer", (80, 89), 1, **_FLASHINFER),
    EngineKernel("sglang", "flashinfer", (110, 129), 1, **_FLASHINFER),
    EngineKernel("tensorrt_llm", "flashinfer", (90, 90), 32, **_XQA_HOPPER),
    EngineKernel("tensorrt_llm", "flashinfer", (100, 109), 32, **_TRTLLM_GEN),
    EngineKernel("tensorrt_llm", "flashinfer", (120, 129), 32, **_XQA),
    EngineKernel("transformers", "flash_attn", (80, 129), 0, prepare=calls.flash_attention_2, **_FA2),
    EngineKernel(
        "transformers", "torch", (80, 129), 0, prepare=calls.torch_attention, **_FA2 | {"name": "torch attention"}
    ),
)  # fmt: skip


def make_operands(torch: Any, kernel: EngineKernel, point: AttentionPoint, sets: int, lengths: Iterable[int]) -> Operands:
    """Random operands in the layout of ``kernel``; the pages of all sequences are shuffled, as in a running engine."""
    page = kernel.page or point.context
    per_sequence = -(-point.context // page)
    pages = point.batch * per_sequence
    eight_bit = point.kv_format == "fp8"
    inner = (point.kv_heads, page) if kernel.heads_first else (page, point.kv_heads)
    order = np.random.default_rng(0).permutation(pages) if kernel.page else np.arange(pages)
    table = np.asarray(order.reshape(point.batch, per_sequence), np.int32)
    host_lengths = np.array(list(lengths), np.int32)
    starts = (np.arange(point.batch + 1) * point.query_tokens).astype(np.int32)

    def random(*size: int, narrow: bool) -> Any:
        values = torch.randn(size, dtype=torch.bfloat16, device="cuda")
        return values.to(torch.float8_e4m3fn) if narrow else values

    cache_shape = (pages, *inner, point.head_dim)
    return Operands(
        torch=torch,
        point=point,
        page=kernel.page,
        q=random(
            point.batch * point.query_tokens,
            point.kv_heads * point.group,
            point.head_dim,
            narrow=eight_bit and kernel.narrow_query,
        ),
        caches=[(random(*cache_shape, narrow=eight_bit), random(*cache_shape, narrow=eight_bit)) for _ in range(sets)],
        table=torch.from_numpy(table).to("cuda"),
        lengths=torch.from_numpy(host_lengths).to("cuda"),
        starts=torch.from_numpy(starts).to("cuda"),
        host_table=table,
        host_lengths=host_lengths,
        heads_first=kernel.heads_first,
    )


def check_kernel(torch: Any, kernel: EngineKernel, head_dim: int, kv_format: str = "bf16") -> None:
    """A small point against float64; raises ``CheckFailed``, or whatever the package raises."""
    point = AttentionPoint(2, 5, 320, 4, 2, head_dim, kv_format)
    o = make_operands(torch, kernel, point, 1, (320, 283) if kernel.page else (320, 320))
    out = kernel.prepare(o)(0)
    q_shape = (point.batch, point.query_tokens, o.heads, head_dim)
    k, v = (_gathered(o, cache) for cache in o.caches[0])
    want = reference.attention(_host(o.q).reshape(q_shape), k, v, o.host_lengths)
    error = reference.relative_error(_host(out).reshape(q_shape), want)
    require(f"{kernel.name} of {kernel.module} ({kv_format} cache)", error, TOLERANCE[kv_format])


def _host(tensor: Any) -> Any:
    return tensor.float().cpu().numpy().astype(np.float64)


def _gathered(o: Operands, cache: Any) -> Any:
    """The cache [batch, context, kv_heads, dim] that the page table describes."""
    values = _host(cache)
    values = values.swapaxes(1, 2) if o.heads_first else values
    return values[o.host_table].reshape(o.point.batch, -1, *values.shape[2:])
