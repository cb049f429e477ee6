"""Seconds of one operator on one GPU: pure functions, arrays in, arrays out; parameters come from the GPU's kernel profile."""

from specadvisor.kernels.attention import attention_s
from specadvisor.kernels.collective import all_reduce_s
from specadvisor.kernels.gemm import gemm_s
from specadvisor.kernels.memory_bound import memory_pass_s
from specadvisor.kernels.mla import mla_s
from specadvisor.kernels.moe import moe_s
from specadvisor.kernels.parameters import error_band
from specadvisor.kernels.recurrent import recurrent_s
from specadvisor.kernels.routing import distinct_experts
from specadvisor.kernels.sparse import sparse_attention_s

__all__ = [
    "all_reduce_s", "attention_s", "distinct_experts", "error_band", "gemm_s", "memory_pass_s", "mla_s", "moe_s", "recurrent_s",
    "sparse_attention_s",
]  # fmt: skip
