"""Identities of the evaluated grid: what must hold whatever the cost model says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specadvisor.acceptance import Survival, from_conditional, from_cumulative
from specadvisor.advise.advisor import Advisor
from specadvisor.advise.evaluate import baseline, evaluate
from specadvisor.drafters import load_drafter
from specadvisor.errors import InputError
from specadvisor.step import prefill_s, target_step

from .conftest import faster

K = np.arange(1, 8, dtype=float)[:, None]
USERS = np.array([1.0, 4.0, 16.0, 64.0, 256.0])[None, :]
CURVE = from_conditional([0.8] * 7)


def grid(advisor: Advisor, kind: str = "eagle3", curve: Survival = CURVE, **load):
    drafter = load_drafter(kind, advisor.deployment.model)
    return evaluate(advisor.deployment, drafter, curve, K, USERS, 1024.0, **load)


def test_throughput_and_tpot_are_the_formulas(small):
    at = grid(small, input_tokens=512, output_tokens=256)
    per_token = float(prefill_s(small.deployment, 512)) / 256
    own = float(load_drafter("eagle3", small.deployment.model).drafter_prefill_s(small.deployment, 512)) / 256
    length, batch, round_s = at.acceptance_length.mid, at.batch, at.round_s
    assert 0 < own < 0.2 * per_token
    np.testing.assert_allclose(at.throughput_tok_s, batch * length / (round_s + batch * length * (per_token + own)))
    np.testing.assert_allclose(at.tpot_s, round_s / length + (batch - 1) * (per_token + own))
    step_s, base = at.baseline.total_s, at.baseline_batch
    np.testing.assert_allclose(at.baseline_throughput_tok_s, base / (step_s + base * per_token))
    np.testing.assert_allclose(at.throughput_speedup.mid, at.throughput_tok_s / at.baseline_throughput_tok_s)
    np.testing.assert_allclose(at.tpot_speedup.mid, at.baseline_tpot_s / at.tpot_s)


def test_without_lengths_there_is_no_prefill_term(small):
    at = grid(small)
    np.testing.assert_allclose(at.tpot_s, at.round_s / at.acceptance_length.mid)
    assert np.isnan(at.prefill_s)
    some = grid(small, input_tokens=np.array([[np.nan, 512, 512, 512, 512]]), output_tokens=256)
    np.testing.assert_allclose(some.throughput_speedup.mid[:, 0], at.throughput_speedup.mid[:, 0])
    assert np.all(some.throughput_speedup.mid[:, 3] != at.throughput_speedup.mid[:, 3])


def test_plain_decoding_is_the_targets_own_step(small):
    plain = baseline(small.deployment, USERS, 1024.0)
    np.testing.assert_allclose(plain.step.total_s, target_step(small.deployment, USERS, 1.0, 1024.0).total_s)
    np.testing.assert_allclose(plain.throughput_tok_s, USERS / plain.step.total_s)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["eagle3", "dflash", "draft_model", "ngram"]),
    st.integers(1, 7),
    st.integers(1, 512),
    st.integers(64, 32768),
)
def test_acceptance_zero_never_speeds_up(small, kind, k, users, context):
    drafter = load_drafter(kind, small.deployment.model)
    at = evaluate(small.deployment, drafter, from_cumulative([0.0] * 7), float(k), float(users), float(context))
    assert float(at.throughput_speedup.mid) < 1.0
    assert float(at.acceptance_length.mid) == 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_length_is_at_most_one_more_than_k(small, conditionals):
    at = grid(small, curve=from_conditional(conditionals))
    assert np.all(at.acceptance_length.mid <= K + 1 + 1e-9)
    assert np.all(at.acceptance_length.high <= K + 1 + 1e-9)


def test_more_bandwidth_and_peak_with_the_same_kernels_is_never_slower(small):
    quick = Advisor("qwen3-8b", faster("h200_sxm", 1.5))
    slow, fast = grid(small), grid(quick)
    assert np.all(fast.round_s <= slow.round_s)
    assert np.all(fast.baseline.total_s <= slow.baseline.total_s)


def test_a_drafter_takes_room_from_the_pool(tight):
    at = evaluate(tight.deployment, load_drafter("draft_model", tight.deployment.model), CURVE, 3.0, 1000.0, 2048.0)
    assert float(at.batch) < float(at.baseline_batch) < 1000


def test_replicas_split_the_load_and_add_up():
    one = Advisor("qwen3-8b", "h200_sxm")
    four = Advisor("qwen3-8b", "h200_sxm", dp=4)
    alone, split = grid(one), grid(four)
    column = list(USERS[0]).index(16.0)
    np.testing.assert_allclose(split.throughput_tok_s[:, column], 4 * alone.throughput_tok_s[:, 1])
    np.testing.assert_allclose(split.throughput_tok_s[:, 0], alone.throughput_tok_s[:, 0])


def test_any_axes_broadcast(small):
    drafter = load_drafter("eagle3", small.deployment.model)
    full = evaluate(small.deployment, drafter, CURVE, K[:, :, None], USERS[:, :, None], np.array([512.0, 4096.0]))
    assert full.throughput_speedup.mid.shape == (7, 5, 2)
    one = evaluate(small.deployment, drafter, CURVE, 3.0, 16.0, 4096.0)
    assert float(one.throughput_speedup.mid) == pytest.approx(full.throughput_speedup.mid[2, 2, 1])


@pytest.mark.parametrize("k", [0, -1, 2.5, 99])
def test_k_that_cannot_be_drafted_is_refused(small, k):
    drafter = load_drafter("eagle3", small.deployment.model)
    with pytest.raises(InputError, match="k"):
        evaluate(small.deployment, drafter, CURVE, float(k), 1.0, 1024.0)
