"""Products that cuBLASLt does not have: Marlin W4A16 and fused mixture-of-experts, through vLLM's own functions.

Calls follow vLLM 0.10-0.1x; a version that differs fails or does not match its reference, and is reported as not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specadvisor.calibration.checks import require

GROUP = 128
W4A16_TOLERANCE = 2e-2
MOE_TOLERANCE = 2e-2


@dataclass(frozen=True, slots=True)
class MoePoint:
    """One fused mixture-of-experts layer on one rank, uniform routing."""

    tokens: int
    hidden: int
    intermediate: int
    experts: int
    top_k: int


def marlin(torch: Any, n: int, k: int) -> tuple[Callable[[Any, Any], Any], Callable[[], Any]]:
    """(run, make): ``make()`` quantises a random weight as vLLM does, ``run(x, weight)`` multiplies. Checked at once."""
    from vllm.model_executor.layers.quantization.utils.marlin_utils import apply_gptq_marlin_linear, marlin_make_workspace_new
    from vllm.model_executor.layers.quantization.utils.marlin_utils_test import marlin_quantize
    from vllm.scalar_type import scalar_types

    workspace = marlin_make_workspace_new(torch.device("cuda"))
    none = torch.empty(0, dtype=torch.int32, device="cuda")

    def make() -> Any:
        weight = torch.randn(k, n, dtype=torch.bfloat16, device="cuda") * 0.05
        return marlin_quantize(weight, scalar_types.uint4b8, GROUP, False)

    def run(x: Any, weight: Any) -> Any:
        return apply_gptq_marlin_linear(
            x, weight[1], weight[2], none, weight[3], weight[4], workspace, scalar_types.uint4b8, n, k, is_k_full=True
        )

    weight, x = make(), torch.randn(16, k, dtype=torch.bfloat16, device="cuda")
    want, got = x.double() @ weight[0].double(), run(x, weight).double()
    require("Marlin W4A16 of vLLM", float((got - want).norm() / want.norm()), W4A16_TOLERANCE)
    return run, make


def fused_moe(torch: Any, point: MoePoint) -> tuple[Callable[[Any, Any, Any, Any], Any], Callable[[], Any]]:
    """(run, make): ``make()`` gives the (w1, w2) of all experts, ``run(x, weights, topk_weights, topk_ids)`` the layer."""
    from vllm.model_executor.layers.fused_moe import fused_experts

    def make(experts: int = point.experts) -> Any:
        w1 = torch.randn(experts, 2 * point.intermediate, point.hidden, dtype=torch.bfloat16, device="cuda") * 0.05
        w2 = torch.randn(experts, point.hidden, point.intermediate, dtype=torch.bfloat16, device="cuda") * 0.05
        return w1, w2

    def run(x: Any, weights: Any, topk_weights: Any, topk_ids: Any) -> Any:
        return fused_experts(x, weights[0], weights[1], topk_weights, topk_ids)

    weights, x = make(4), torch.randn(8, point.hidden, dtype=torch.bfloat16, device="cuda")
    topk_weights, topk_ids = routing(torch, 8, 4, 2)
    got = run(x.clone(), weights, topk_weights, topk_ids).double()
    want = _reference_moe(torch, x.double(), [w.double() for w in weights], topk_weights.double(), topk_ids)
    require("The fused mixture of experts of vLLM", float((got - want).norm() / want.norm()), MOE_TOLERANCE)
    return run, make


def routing(torch: Any, tokens: int, experts: int, top_k: int) -> tuple[Any, Any]:
    """Uniform random choice of ``top_k`` different experts per token, with softmax weights."""
    scores = torch.rand(tokens, experts, device="cuda")
    weights, ids = torch.topk(torch.softmax(scores, dim=-1), top_k, dim=-1)
    return weights.float().contiguous(), ids.to(torch.int32).contiguous()


def _reference_moe(torch: Any, x: Any, weights: Any, topk_weights: Any, topk_ids: Any) -> Any:
    out = torch.zeros_like(x)
    for token in range(x.shape[0]):
        for slot in range(topk_ids.shape[1]):
            expert = int(topk_ids[token, slot])
            gate, up = (weights[0][expert] @ x[token]).chunk(2)
            out[token] += topk_weights[token, slot] * (weights[1][expert] @ (torch.nn.functional.silu(gate) * up))
    return out
