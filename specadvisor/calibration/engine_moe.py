"""The fused mixture of experts of vLLM, 16-bit weights: its Triton kernels, which it chooses up to Hopper.

Checked against the source of vLLM 0.33 (``oracle/unquantized.py``: FlashInfer's kernels from Blackwell on, which need
weights laid out by the engine itself and are not timed). SGLang's runs only inside its server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.calibration import reference
from specadvisor.calibration.checks import require
from specadvisor.ranges import FloatArray

MOE_TOLERANCE = 1.5e-2  # the inner activations are rounded to bf16 between the two products


@dataclass(frozen=True, slots=True)
class MoePoint:
    """One fused mixture-of-experts layer on one rank, uniform routing."""

    tokens: int
    hidden: int
    intermediate: int
    experts: int
    top_k: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.hidden, self.intermediate, self.experts, self.top_k

    @property
    def weight_bytes(self) -> int:
        """All experts' three matrices in bf16."""
        return self.experts * 3 * self.hidden * self.intermediate * 2


Experts = tuple[Any, Any]  # gate and up [experts, 2 * intermediate, hidden], down [experts, hidden, intermediate]
Routing = tuple[Any, Any]  # weights [tokens, top_k] float32, expert ids [tokens, top_k] int32
Mix = Callable[[Any, Experts, Routing], Any]


@dataclass(frozen=True)
class MoeKernel:
    """One package's layer; ``load`` gives y = mix(x, experts, routing). ``capabilities`` as for attention."""

    engine: str
    module: str
    name: str
    capabilities: tuple[int, int]
    load: Callable[[], Mix]


def _vllm_fused_experts() -> Mix:
    from vllm.model_executor.layers.fused_moe import fused_experts

    return lambda x, experts, routing: fused_experts(
        hidden_states=x, w1=experts[0], w2=experts[1], topk_weights=routing[0], topk_ids=routing[1]
    )


MOE_KERNELS = (MoeKernel("vllm", "vllm", "fused_experts", (80, 90), _vllm_fused_experts),)


def random_experts(torch: Any, experts: int, hidden: int, intermediate: int) -> Experts:
    """Random weights that keep the activations near one."""
    first = torch.randn((experts, 2 * intermediate, hidden), dtype=torch.bfloat16, device="cuda") * hidden**-0.5
    second = torch.randn((experts, hidden, intermediate), dtype=torch.bfloat16, device="cuda") * intermediate**-0.5
    return first, second


def random_routing(torch: Any, tokens: int, experts: int, top_k: int) -> Routing:
    """A uniform choice of ``top_k`` different experts per token; the weights do not add up to one."""
    scores = torch.softmax(torch.randn((tokens, experts), dtype=torch.float32, device="cuda"), dim=-1)
    weights, ids = torch.topk(scores, top_k, dim=-1)
    return weights.contiguous(), ids.to(torch.int32).contiguous()


def check_moe_kernel(torch: Any, kernel: MoeKernel) -> None:
    """A small layer against float64; raises ``CheckFailed``, or whatever the package raises."""
    experts, routing = random_experts(torch, 8, 256, 128), random_routing(torch, 9, 8, 2)
    x = torch.randn((9, 256), dtype=torch.bfloat16, device="cuda")
    want = _reference([_host(tensor) for tensor in (x, *experts, *routing)])
    got = _host(kernel.load()(x, experts, routing))
    require(f"{kernel.name} of {kernel.module}", reference.relative_error(got, want), MOE_TOLERANCE)


def _host(tensor: Any) -> FloatArray:
    return np.asarray(tensor.float().cpu().numpy(), np.float64)


def _reference(operands: list[FloatArray]) -> FloatArray:
    """float64 layer: y = sum over the chosen experts of weight * down (silu(gate x) * up x)."""
    x, first, second, weights, ids = operands
    out = np.zeros_like(x)
    for token, slot in np.ndindex(*ids.shape):
        expert = int(ids[token, slot])
        gate, up = np.split(first[expert] @ x[token], 2)
        out[token] += weights[token, slot] * (second[expert] @ (gate / (1.0 + np.exp(-gate)) * up))
    return out
