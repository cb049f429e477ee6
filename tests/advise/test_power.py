"""A lower power limit slows compute more than reading: speculation must not look better under it."""

from __future__ import annotations

import numpy as np
import pytest

from specadvisor.advise.advisor import Advisor

ACCEPTANCE = "conditional:0.9,0.85,0.8,0.75"


def gains(limit: float, case: tuple[str, str, str, str | None, str], concurrency: list[int]) -> list[float]:
    model, gpu, engine, weights, drafter = case
    advisor = Advisor(model, gpu, engine, weights=weights, power_limit_w=limit)
    answer = advisor.recommend(concurrency, drafters=drafter, acceptance=ACCEPTANCE)
    return [choice.gain.mid for choice in answer.curves[drafter].choices]


@pytest.mark.parametrize(
    ("case", "limits"),
    [
        (("qwen3.5-27b", "rtx_3090", "llama_cpp", "q4_k_m", "mtp"), (350, 250, 150)),
        (("qwen3-8b", "rtx_4090", "vllm", None, "eagle3"), (450, 300, 200)),
        (("qwen3-8b", "rtx_4090", "vllm", "w4a16", "eagle3"), (450, 300, 200)),
        (("qwen3-32b", "h100_sxm", "vllm", "fp8", "eagle3"), (700, 500, 350)),
    ],
    ids=["gguf", "bf16", "w4a16", "fp8"],
)
def test_a_lower_power_limit_does_not_raise_the_gain(case, limits):
    """By 1% at most, at concurrency 1: host time, which no GPU clock slows, then weighs less in a round."""
    found = np.array([gains(limit, case, [1, 8, 64]) for limit in limits])
    assert np.all(np.diff(found, axis=0) <= 0.01 * found[1:])
    assert np.all(np.diff(found[:, 1:], axis=0) <= 0.0)


def test_elasticities_of_a_quantised_model_to_the_clock():
    """Published grid (RTX 3090, 27B, 4-bit k-quant): plain decoding 0.23-0.30, verification 0.74-0.83."""
    full, low = (Advisor("qwen3.5-27b", "rtx_3090", "llama_cpp", weights="q4_k_m", power_limit_w=limit) for limit in (350, 250))
    clock = -np.log(low.deployment.gpu.clock_scale)
    for query_tokens, least, most in ((1, 0.20, 0.33), (13, 0.70, 0.85)):
        ratio = low.step(1, query_tokens, 2048).total_s / full.step(1, query_tokens, 2048).total_s
        assert least < np.log(ratio) / clock < most
