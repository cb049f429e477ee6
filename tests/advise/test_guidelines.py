from __future__ import annotations

import numpy as np
import pytest

from specadvisor.acceptance import from_conditional
from specadvisor.advise.advisor import Advisor
from specadvisor.advise.evaluate import evaluate
from specadvisor.advise.guidelines import trace
from specadvisor.drafters import load_drafter

from .conftest import model_file

USERS = np.array([1.0, 32.0, 128.0])[None, :]


def traced(advisor: Advisor, kind: str, k: int, column: int, rate: float = 0.8, context: float = 2048.0):
    drafter = load_drafter(kind, advisor.deployment.model, advisor.deployment.serving.id)
    curve = from_conditional([rate] * drafter.k_max)
    ks = np.asarray(drafter.allowed_k(), dtype=float)[:, None]
    at = evaluate(advisor.deployment, drafter, curve, ks, USERS, context)
    return trace(advisor.deployment, drafter, curve, at, column, k), at


def test_the_five_in_order_with_a_sentence_each(small):
    found, _ = traced(small, "eagle3", 3, 1)
    assert [g.number for g in found.guidelines] == [1, 2, 3, 4, 5]
    assert all(g.says and g.title for g in found.guidelines)


def test_first_rows_against_the_ridge_of_the_gpu(small):
    found, _ = traced(small, "eagle3", 3, 1)
    first = found.guidelines[0]
    assert first.numbers["ridge_rows"] == pytest.approx(206, abs=1)
    assert first.numbers["rows"] == 32 * 4
    assert first.k == 206 // 32 - 1


def test_seven_drafts_reach_the_ridge_at_an_eighth_of_the_batch(small):
    plain = traced(small, "eagle3", 1, 1)[0].guidelines[0].numbers["ridge_rows"]
    assert plain / (7 + 1) == pytest.approx(plain / 8)
    at_an_eighth, _ = traced(small, "eagle3", 7, 1)
    assert at_an_eighth.guidelines[0].numbers["rows"] == pytest.approx(8 * 32)


def test_second_names_nvidias_rule_and_the_kernels_own(small):
    second = traced(small, "eagle3", 3, 1)[0].guidelines[1]
    assert second.numbers["group_size"] == 4
    assert second.numbers["k_128_over_g"] == 31
    assert second.numbers["k_g2"] == 31
    assert 0 < second.numbers["attention_share"] < 0.5


def test_third_counts_rows_tiles_and_waste(small):
    third = traced(small, "eagle3", 3, 1)[0].guidelines[2]
    assert third.numbers["rows"] == 16
    assert third.numbers["tiles"] == 1
    assert third.numbers["next_aligned_k"] == 31


def test_fourth_is_the_exact_marginal_rule(small):
    found, at = traced(small, "eagle3", 3, 2)
    steps = found.guidelines[3].numbers["steps"]
    round_s = np.broadcast_to(at.round_s, (at.k.size, 3))[:, 2]
    length = np.asarray(at.acceptance_length.mid).ravel()
    assert steps[3]["marginal_gain"] == pytest.approx(length[3] / length[2] - 1)
    assert steps[3]["marginal_cost"] == pytest.approx(round_s[3] / round_s[2] - 1)
    for step in steps[: found.guidelines[3].k]:
        assert step["marginal_gain"] > step["marginal_cost"]


def test_nothing_binds_while_the_next_draft_token_pays(small):
    found, _ = traced(small, "eagle3", 1, 0, rate=0.95)
    assert found.binding == 0
    assert "nothing binds" in found.because


def test_load_binds_through_the_matrices(small):
    found, _ = traced(small, "eagle3", 2, 2, rate=0.5)
    assert found.binding == 1
    assert "matrices" in found.because


def test_a_slow_serial_drafter_binds_through_its_own_time():
    found, _ = traced(Advisor("qwen3-32b", "h200_sxm"), "draft_model", 8, 0, rate=0.75)
    assert found.binding == 4
    assert "drafting" in found.because


def test_the_pool_binds_where_only_the_batch_shrinks(tight):
    drafter = load_drafter("draft_model", tight.deployment.model)
    curve = from_conditional([0.8] * drafter.k_max)
    ks = np.asarray(drafter.allowed_k(), dtype=float)[:, None]
    at = evaluate(tight.deployment, drafter, curve, ks, np.array([[64.0]]), 4096.0)
    found = trace(tight.deployment, drafter, curve, at, 0, 0)
    assert found.binding == 1
    assert "KV pool" in found.because


def test_the_experts_of_a_mixture_grow_at_low_batch():
    advisor = Advisor("qwen3-30b-a3b", "h100_sxm")
    step = advisor.step(1, np.array([1.0, 4.0, 8.0]), 1280)
    moe = np.asarray(step["moe"])
    assert moe[1] > 1.6 * moe[0]
    assert moe[2] > 1.5 * moe[1]
    found, _ = traced(advisor, "eagle3", 3, 0)
    assert found.guidelines[0].numbers["rows_per_expert"] == pytest.approx(4 * 8 / 128)


def test_deepseek_on_eight_gpus_reads_more_experts_when_it_verifies():
    advisor = Advisor("deepseek-v3", "h200_sxm", engine="sglang", tp=8)
    step = advisor.step(1, np.array([1.0, 4.0]), 1280)
    moe, gemm = np.asarray(step["moe"]), np.asarray(step["gemm"])
    assert moe[1] > 1.3 * moe[0]
    assert gemm[1] < 1.1 * gemm[0]
    found, _ = traced(advisor, "mtp", 3, 0)
    assert found.guidelines[1].numbers["group_size"] == 16
    assert found.guidelines[1].numbers["k_128_over_g"] == 7


def test_the_state_of_a_hybrid_has_no_free_region():
    advisor = Advisor(model_file("nvidia--Qwen3.6-27B-NVFP4_config.json"), "h100_sxm", weights="bf16")
    step = advisor.step(32, np.arange(1.0, 6.0), 1280)
    state = np.asarray(step["recurrent"])
    steps = np.diff(state)
    assert np.all(steps > 0.2 * state[0])
    np.testing.assert_allclose(steps, steps[0], rtol=0.2)
    found, _ = traced(advisor, "mtp", 3, 1)
    assert found.guidelines[1].numbers["state_share"] > 0.1
    assert "recurrent state" in found.guidelines[1].says


def test_absorbed_attention_with_all_heads_on_one_rank_has_no_free_rows():
    advisor = Advisor("deepseek-v3", "b300_sxm", tp=8, weights="nvfp4")
    alone = Advisor("deepseek-v3", "b300_sxm", tp=1, pp=8, weights="nvfp4")
    assert traced(advisor, "mtp", 3, 0)[0].guidelines[1].numbers["group_size"] == 16
    second = traced(alone, "mtp", 3, 0)[0].guidelines[1]
    assert (second.numbers["k_128_over_g"], second.k) == (0, 0)
