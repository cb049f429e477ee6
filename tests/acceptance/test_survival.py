"""The survival curve: bounds, extension, intervals."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.acceptance import Survival, fit_acceptance, from_conditional, from_cumulative, from_length, prior, with_gain
from specadvisor.errors import InputError
from specadvisor.ids import DRAFTERS

curves = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10).map(from_conditional)


@given(curves, st.floats(0.0, 1.0))
def test_length_and_its_interval_stay_between_one_and_k_plus_one(curve: Survival, sigma: float) -> None:
    k = np.arange(0, 20)
    interval = Survival(curve.s, sigma).range(k)
    assert np.all(interval.low >= 1 - 1e-9)
    assert np.all(interval.low <= interval.mid + 1e-9)
    assert np.all(interval.mid <= interval.high + 1e-9)
    assert np.all(interval.high <= k + 1 + 1e-9)


@given(curves)
def test_the_gain_of_one_more_draft_is_its_survival_and_never_grows(curve: Survival) -> None:
    gain = np.diff(curve.acceptance_length(np.arange(0, 20)))
    np.testing.assert_allclose(gain, curve.extended(19), atol=1e-12)
    assert np.all(np.diff(gain) <= 1e-12)


def test_shapes_broadcast() -> None:
    curve = from_cumulative([0.8, 0.6, 0.5])
    k = np.array([[0, 1], [2, 3]])
    np.testing.assert_allclose(curve.acceptance_length(k), [[1.0, 1.8], [2.4, 2.9]])
    assert curve.range(k).low.shape == (2, 2)


def test_the_tail_is_extended_and_said() -> None:
    curve = from_cumulative([0.8, 0.4])
    assert curve.beyond(2) == ""
    assert "3 to 5" in curve.beyond(5)
    np.testing.assert_allclose(curve.extended(4), [0.8, 0.4, 0.2, 0.1])


def test_moments_of_the_accepted_length_by_hand() -> None:
    curve = from_cumulative([0.5, 0.25])  # 0, 1, 2 accepted with 1/2, 1/4, 1/4
    np.testing.assert_allclose(curve.length_pmf(2), [0.5, 0.25, 0.25])
    assert curve.length_variance(2) == pytest.approx(0.25 * 1 + 0.25 * 4 - 0.75**2)


def test_a_length_is_surer_at_its_own_k() -> None:
    curve = from_length(2.5, 3)
    sigma = curve.sigma_at([1, 3, 8])
    assert sigma[1] == pytest.approx(curve.sigma)
    assert sigma[0] > sigma[1] < sigma[2]


def test_the_list_cannot_be_changed_from_outside() -> None:
    given_list = np.array([0.8, 0.6])
    curve = Survival(given_list)
    given_list[0] = 0.1
    assert curve.s[0] == 0.8
    with pytest.raises(ValueError, match="read-only"):
        curve.s[0] = 0.1


def test_json_round_trip() -> None:
    curve = prior("dspark", "coding").with_notes("a note")
    again = Survival.from_dict(json.loads(json.dumps(curve.to_dict())))
    np.testing.assert_array_equal(again.s, curve.s)
    assert (again.sigma, again.source, again.known, again.tail, again.notes) == (
        curve.sigma, curve.source, curve.known, curve.tail, curve.notes,
    )  # fmt: skip


@given(st.sampled_from(DRAFTERS), st.floats(0.3, 1.3))
def test_a_gain_factor_scales_the_length(kind: str, factor: float) -> None:
    curve = prior(kind)
    moved = with_gain(curve, factor, 3)
    want = min(factor * (float(curve.acceptance_length(3)) - 1), 0.999 * 3)
    assert float(moved.acceptance_length(3)) - 1 == pytest.approx(want, rel=1e-6)


def test_a_factor_of_zero_accepts_nothing() -> None:
    assert float(with_gain(prior("mtp"), 0.0).acceptance_length(9)) == 1.0
    with pytest.raises(InputError):
        with_gain(prior("mtp"), -1.0)


def test_more_drafts_never_have_a_lower_low_end() -> None:
    everything_accepted = fit_acceptance(lengths={3: 4.0}).survival.range(range(10))
    np.testing.assert_allclose(everything_accepted.low[:5], [1, 2, 3, 4, 4])
    past_the_cliff = fit_acceptance(conditional=[0.8, 0.7], trained_depth=1).survival.range(range(16))
    for interval in (everything_accepted, past_the_cliff):
        assert np.all(np.diff(interval.low) >= 0)
        assert np.all((interval.low <= interval.mid) & (interval.mid <= interval.high + 1e-9))
