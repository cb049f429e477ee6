"""Products with 4-bit weights, which cuBLASLt does not have: Machete and Marlin through vLLM, sgl-kernel or SGLang.

Checked against the sources of vLLM 0.33 (``choose_mp_linear_kernel``: Machete on Hopper, Marlin elsewhere), sgl-kernel 0.3.21
and SGLang 0.5.23, and of vLLM 0.20 and SGLang 0.5.10: where the activation order is still taken, it gets an empty one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from specadvisor.calibration import reference
from specadvisor.calibration.checks import require
from specadvisor.calibration.engine_calls import accepted
from specadvisor.ranges import FloatArray

GROUP = 128
# The dequantised weight and the result are rounded to bf16.
W4A16_TOLERANCE = 1e-2
_BLOCKS_PER_SM = 4
_SGLANG_MODULES = (
    ("sgl_kernel", "sgl_kernel"),
    ("sglang.kernels.ops.gemm.gptq_marlin", "sglang.kernels.ops.quantization.gptq_marlin_repack"),
    ("sglang.jit_kernel.gptq_marlin", "sglang.jit_kernel.gptq_marlin_repack"),
)


@dataclass(frozen=True)
class Quantised:
    """A random weight [k, n] of 4-bit integers less 8, in GPTQ's layout: int32 ``packed`` [k / 8, n], eight along k, and
    bf16 ``scales`` [k / 128, n].
    """

    torch: Any
    n: int
    k: int
    packed: Any
    scales: Any

    @classmethod
    def random(cls, torch: Any, n: int, k: int) -> Quantised:
        packed = torch.randint(-(2**31), 2**31, (k // 8, n), dtype=torch.int32, device="cuda")
        scales = torch.rand((k // GROUP, n), dtype=torch.float32, device="cuda") * 0.01 + 0.005
        return cls(torch, n, k, packed, scales.to(torch.bfloat16))

    def dequantised(self) -> FloatArray:
        """The weight [k, n]."""
        words = self.packed.cpu().numpy().astype(np.int64)
        nibbles = (words[:, None, :] >> (4 * np.arange(8))[:, None]) & 15
        scales = np.repeat(self.scales.float().cpu().numpy().astype(np.float64), GROUP, axis=0)
        return np.asarray((nibbles.reshape(self.k, self.n) - 8.0) * scales)

    def empty(self) -> Any:
        return self.torch.empty(0, dtype=self.torch.int32, device="cuda")

    def locks(self) -> Any:
        """Marlin's workspace: a zeroed lock per block."""
        sms = self.torch.cuda.get_device_properties(0).multi_processor_count
        return self.torch.zeros(sms * _BLOCKS_PER_SM, dtype=self.torch.int32, device="cuda")


Multiply = Callable[[Any], Any]


@dataclass(frozen=True)
class WeightKernel:
    """One package's W4A16 product; ``prepare`` repacks a weight and gives y = x weight. ``capabilities`` as for attention."""

    engine: str
    module: str
    name: str
    capabilities: tuple[int, int]
    prepare: Callable[[Quantised], Multiply]


def _vllm_machete(w: Quantised) -> Multiply:
    from vllm import _custom_ops as ops
    from vllm.scalar_type import scalar_types

    bf16 = w.torch.bfloat16
    columns = w.packed.t().contiguous().t()  # Machete reads its 4-bit words column by column
    kind = scalar_types.uint4b8
    packed = ops.machete_prepack_B(columns, a_type=bf16, b_type=kind, group_scales_type=bf16)
    return lambda x: ops.machete_mm(a=x, b_q=packed, b_type=kind, b_group_scales=w.scales, b_group_size=GROUP)


def _vllm_marlin(w: Quantised) -> Multiply:
    from vllm import _custom_ops as ops
    from vllm.model_executor.layers.quantization.utils.marlin_utils import apply_gptq_marlin_linear, marlin_permute_scales
    from vllm.scalar_type import scalar_types

    empty, locks = w.empty(), w.locks()
    perm = accepted(ops.gptq_marlin_repack, perm=empty)
    packed = ops.gptq_marlin_repack(b_q_weight=w.packed, size_k=w.k, size_n=w.n, num_bits=4, **perm)
    scales = marlin_permute_scales(s=w.scales, size_k=w.k, size_n=w.n, group_size=GROUP)
    order = accepted(apply_gptq_marlin_linear, g_idx=empty, g_idx_sort_indices=empty, is_k_full=True)
    return lambda x: apply_gptq_marlin_linear(
        input=x, weight=packed, weight_scale=scales, weight_zp=empty, workspace=locks, wtype=scalar_types.uint4b8,
        output_size_per_partition=w.n, input_size_per_partition=w.k, **order,
    )  # fmt: skip


def _sglang_functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Product and repacking, which moved from sgl-kernel into SGLang; one signature throughout."""
    for product, repacking in _SGLANG_MODULES:
        try:
            return import_module(product).gptq_marlin_gemm, import_module(repacking).gptq_marlin_repack
        except (ImportError, AttributeError):
            continue
    raise ImportError("neither sgl_kernel nor sglang has gptq_marlin_gemm")


def _sglang_marlin(w: Quantised) -> Multiply:
    from sgl_kernel.scalar_type import scalar_types

    gptq_marlin_gemm, gptq_marlin_repack = _sglang_functions()
    empty, locks, kind = w.empty(), w.locks(), scalar_types.uint4b8
    packed = gptq_marlin_repack(b_q_weight=w.packed, perm=empty, size_k=w.k, size_n=w.n, num_bits=4)
    # Marlin's order of group scales: every 64 as the transpose of an 8 x 8 square.
    scales = w.scales.reshape(-1, 8, 8).transpose(1, 2).reshape(-1, w.n).contiguous()
    return lambda x: gptq_marlin_gemm(
        a=x, c=None, b_q_weight=packed, b_scales=scales, global_scale=None, b_zeros=empty, g_idx=empty, perm=empty,
        workspace=locks, b_q_type=kind, size_m=x.shape[0], size_n=w.n, size_k=w.k, is_k_full=True, use_atomic_add=False,
        use_fp32_reduce=True, is_zp_float=False,
    )  # fmt: skip


W4A16_KERNELS = (
    WeightKernel("vllm", "vllm", "Machete", (90, 90), _vllm_machete),
    WeightKernel("vllm", "vllm", "Marlin", (80, 129), _vllm_marlin),
    WeightKernel("sglang", "sgl_kernel", "Marlin", (80, 129), _sglang_marlin),
)


def check_weight_kernel(torch: Any, kernel: WeightKernel) -> None:
    """A small product against float64; raises ``CheckFailed``, or whatever the package raises."""
    w = Quantised.random(torch, 512, 1024)
    x = torch.randn((16, w.k), dtype=torch.bfloat16, device="cuda")
    got = kernel.prepare(w)(x)
    want = x.float().cpu().numpy().astype(np.float64) @ w.dequantised()
    error = reference.relative_error(got.float().cpu().numpy().astype(np.float64), want)
    require(f"{kernel.name} W4A16 of {kernel.module}", error, W4A16_TOLERANCE)
