from __future__ import annotations

from typing import Any

from fake_kernels import mixture, public


@public
def fused_experts(
    hidden_states: Any, w1: Any, w2: Any, topk_weights: Any, topk_ids: Any, activation: Any = "silu",
    apply_router_weight_on_input: Any = False, global_num_experts: Any = -1, expert_map: Any = None, quant_config: Any = None,
) -> Any:  # fmt: skip
    assert w1.shape == (w2.shape[0], 2 * w2.shape[2], w2.shape[1]) and hidden_states.shape[1] == w1.shape[2]
    return mixture(hidden_states, w1, w2, topk_weights, topk_ids)
