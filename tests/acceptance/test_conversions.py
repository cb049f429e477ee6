"""Every form of acceptance gives the same curve, comes back as it was given, and contradictions are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.acceptance import (
    Survival,
    from_alpha,
    from_conditional,
    from_counts,
    from_cumulative,
    from_histogram,
    from_length,
    from_lengths,
    from_rate,
    from_steps,
    to_histogram,
)  # fmt: skip
from specadvisor.errors import InputError
from specadvisor.ids import DRAFTERS

probabilities = st.floats(0.01, 0.99)
conditionals = st.lists(probabilities, min_size=1, max_size=12)

# The scenario of the engine samples: 2000 rounds of 3 drafts, of which 400, 360, 300, 940 accept 0, 1, 2, 3.
SCENARIO = [0.80, 0.62, 0.47]


@pytest.mark.parametrize(
    "curve",
    [
        from_cumulative(SCENARIO),
        from_conditional([0.80, 0.775, 0.47 / 0.62]),
        from_histogram([400, 360, 300, 940]),
        from_histogram({4: 940, 1: 400, 2: 360, 3: 300}, tokens_per_step=True),
        from_counts([1600, 1240, 940], [2000, 2000, 2000]),
        from_counts([1600, 1240, 940], 2000),
        from_steps([[0] * 400 + [1] * 360, [2] * 300 + [3] * 940], 3),
    ],
)
def test_every_form_of_one_scenario_gives_one_curve(curve: Survival) -> None:
    np.testing.assert_allclose(curve.s, SCENARIO, atol=1e-12)
    assert float(curve.acceptance_length(3)) == pytest.approx(2.89, abs=1e-12)
    assert float(curve.rate(3)) == pytest.approx(0.63, abs=1e-12)
    assert curve.known


def test_totals_give_the_length() -> None:
    for curve in (from_counts(3780, 6000, k=3), from_counts(3780, 6000, rounds=2000), from_rate(0.63, 3)):
        assert float(curve.acceptance_length(3)) == pytest.approx(2.89, abs=1e-12)


def test_the_length_counts_the_bonus_token() -> None:
    assert float(from_cumulative([0.0, 0.0]).acceptance_length(2)) == 1.0
    assert float(from_cumulative([1.0, 1.0]).acceptance_length(2)) == 3.0
    assert float(from_cumulative([0.5]).acceptance_length(0)) == 1.0


@given(conditionals)
def test_conditional_and_cumulative_round_trip(a: list[float]) -> None:
    np.testing.assert_allclose(from_conditional(a).conditional, a, rtol=1e-9)
    s = np.cumprod(a)
    np.testing.assert_array_equal(from_cumulative(s.tolist()).s, s)


@given(conditionals, st.integers(1, 10**6))
def test_histogram_round_trips(a: list[float], rounds: int) -> None:
    curve = from_conditional(a)
    again = from_histogram(to_histogram(curve, len(a), rounds))
    np.testing.assert_allclose(again.s, curve.s, atol=1e-12)
    assert sum(to_histogram(curve, len(a)).values()) == pytest.approx(1.0)


@given(st.floats(0.0, 1.0), st.integers(1, 16), st.sampled_from([None, *DRAFTERS]))
def test_length_and_rate_round_trip(rate: float, k: int, kind: str | None) -> None:
    length = 1.0 + rate * k
    curve = from_length(length, k, kind=kind)
    assert float(curve.acceptance_length(k)) == pytest.approx(length, abs=1e-9)
    assert float(from_rate(rate, k, kind=kind).rate(k)) == pytest.approx(rate, abs=1e-9)


@given(conditionals.filter(lambda a: len(a) >= 3), st.data())
def test_lengths_at_several_k_round_trip(a: list[float], data: st.DataObject) -> None:
    ks = data.draw(st.sets(st.integers(1, len(a)), min_size=1))
    lengths = {k: float(from_conditional(a).acceptance_length(k)) for k in ks}
    curve = from_lengths(lengths, kind="eagle3")
    np.testing.assert_allclose(curve.acceptance_length(list(lengths)), list(lengths.values()), atol=1e-7)


def test_alpha_is_leviathans_closed_form() -> None:
    alpha, k = 0.7, 5
    assert float(from_alpha(alpha).acceptance_length(k)) == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: from_length(4.2, 3), "at most k \\+ 1 = 4"),
        (lambda: from_length(0.9, 3), "bonus token is counted"),
        (lambda: from_cumulative([0.5, 0.6]), "Position 2 is above position 1"),
        (lambda: from_conditional([0.8, 1.2]), "between 0 and 1"),
        (lambda: from_conditional([80, 70]), "Divide percentages by 100"),
        (lambda: from_conditional([]), "acceptance"),
        (lambda: from_alpha(1.5), "alpha"),
        (lambda: from_length(2.0, -1), "from 1 to 1024"),
        (lambda: from_rate(0.5, 0), "from 1 to 1024"),
        (lambda: from_lengths({1: 1.8, 3: 1.7}), "AL falls at k = 3"),
        (lambda: from_lengths({1: 1.2, 3: 2.9}), "rises faster"),
        (lambda: from_histogram([0, 0]), "at least one round"),
        (lambda: from_histogram({-1: 4}), "histogram"),
        (lambda: from_counts(7, 6, k=3), "accepted <= drafted"),
        (lambda: from_counts(3, 6), "k or the number of rounds"),
        (lambda: from_steps([0, 4], 3), "k = 3"),
        (lambda: Survival(np.array([0.5])).acceptance_length(-1), "0 or more"),
        (lambda: Survival(np.array([0.5])).acceptance_length(1.5), "whole numbers"),
        (lambda: from_cumulative([float("nan")]), "numbers"),
    ],
)
def test_contradictions_are_refused_with_the_reason(call: object, reason: str) -> None:
    assert callable(call)
    with pytest.raises(InputError, match=reason):
        call()


def test_fewer_counts_give_a_wider_interval() -> None:
    widths = []
    for rounds in (10, 100, 1000, 100_000):
        interval = from_histogram((np.array([0.2, 0.18, 0.15, 0.47]) * rounds).tolist()).range(3)
        widths.append(float(interval.high - interval.low))
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 10 * widths[-1]
