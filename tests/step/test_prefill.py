from __future__ import annotations

import numpy as np
import pytest

from specadvisor.step import prefill_s

from .parts import attention_layer, moe_layer


def test_a_long_prompt_is_bound_by_its_products(deploy) -> None:
    deployment = deploy(attention_layer(2))
    tokens = 50_000
    parameters = deployment.model.active_parameters - 256 * 1000
    attention = 2 * 2 * 4 * (64 + 64) * tokens * tokens / 2
    expected = (2 * parameters * tokens + attention) / (0.5 * deployment.gpu.peak("bf16"))
    assert prefill_s(deployment, tokens) == pytest.approx(expected)


def test_a_short_prompt_reads_the_layers_once(deploy) -> None:
    deployment = deploy(attention_layer(2))
    layers = deployment.model.weight_bytes - 2 * 2 * 256 * 1000
    assert prefill_s(deployment, 1) == pytest.approx(layers / deployment.gpu.memory_bytes_per_s, rel=1e-3)


def test_only_reached_experts_are_read(deploy) -> None:
    deployment = deploy(moe_layer(4))
    one, many = prefill_s(deployment, np.array([1, 64]))
    idle = 4 * 6 * 3 * 256 * 64 * 2 / deployment.gpu.memory_bytes_per_s
    assert many - one == pytest.approx(idle, rel=0.05)


def test_no_prompt_costs_nothing(deploy) -> None:
    assert prefill_s(deploy(), 0) == 0.0


def test_longer_prompts_take_longer(deploy) -> None:
    assert np.all(np.diff(prefill_s(deploy(attention_layer(2, window=256)), np.array([1, 100, 1000, 10_000]))) >= 0)
