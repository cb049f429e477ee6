"""The acceptance model fitted to measurements."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from specadvisor.acceptance import fit_acceptance, from_conditional, from_cumulative
from specadvisor.acceptance.easy_hard import fit_easy_hard
from specadvisor.acceptance.kinds import CLIFF, CLIFF_ONE_STEP
from specadvisor.acceptance.lookup import given_match, hit_share, over_all_rounds
from specadvisor.acceptance.shape import EasyHard, Shape
from specadvisor.errors import InputError

TRUE = Shape(first=0.8, limit=0.7, rate=0.5)


def test_the_shape_is_recovered_from_a_long_list() -> None:
    fit = fit_acceptance(conditional=TRUE.conditional(8).tolist(), rounds=1e6, kind="mtp")
    assert fit.shape.first == pytest.approx(TRUE.first, abs=0.005)
    assert fit.shape.limit == pytest.approx(TRUE.limit, abs=0.01)
    np.testing.assert_allclose(fit.survival.s[:8], TRUE.survival(8), atol=1e-4)


def test_a_stated_list_is_kept_and_only_the_tail_is_the_models() -> None:
    fit = fit_acceptance(cumulative=[0.8, 0.62, 0.47], kind="eagle3", k_max=7)
    np.testing.assert_allclose(fit.survival.s[:3], [0.8, 0.62, 0.47])
    tail = fit.survival.conditional[3:]
    assert np.all((tail > 0.65) & (tail < 0.85))


def test_few_rounds_are_drawn_to_the_catalogue_and_wide() -> None:
    counts = np.array([0.05, 0.05, 0.1, 0.8])
    few, many = (fit_acceptance(histogram=(counts * n).tolist(), kind="eagle3") for n in (20, 20_000))
    measured = float(from_cumulative([0.95, 0.9, 0.8]).acceptance_length(3))
    assert float(many.survival.acceptance_length(3)) == pytest.approx(measured, abs=0.02)
    assert float(few.survival.acceptance_length(3)) < measured - 0.05
    assert few.survival.sigma > 5 * many.survival.sigma


def test_the_interval_holds_what_it_promises() -> None:
    """80% of intervals from 200 rounds contain the truth they were drawn from."""
    rng = np.random.default_rng(7)
    truth = from_conditional(TRUE.conditional(3).tolist())
    inside = 0
    trials = 300
    for _ in range(trials):
        counts = rng.multinomial(200, truth.length_pmf(3))
        interval = fit_acceptance(histogram=counts.tolist(), kind="mtp").interval(3)
        inside += float(interval.low) <= float(truth.acceptance_length(3)) <= float(interval.high)
    assert 0.70 <= inside / trials <= 0.92


def test_totals_and_positions_of_one_scenario_agree() -> None:
    by_position = fit_acceptance(accepted=[1600, 1240, 940], drafted=2000, kind="eagle3")
    totals = fit_acceptance(accepted=3780, drafted=6000, k=3, kind="eagle3")
    assert by_position.rounds == totals.rounds == 2000
    assert float(totals.survival.acceptance_length(3)) == pytest.approx(
        float(by_position.survival.acceptance_length(3)), abs=0.01
    )


def test_step_lists_are_per_request() -> None:
    fit = fit_acceptance(steps=[[3, 3, 0], [1] * 7], k=3)
    assert fit.rounds == 10


def test_a_cliff_past_the_trained_depth() -> None:
    one_step = fit_acceptance(conditional=[0.7], rounds=1e5, kind="mtp", trained_depth=1, k_max=3).survival
    assert one_step.conditional[1] < 1.2 * CLIFF_ONE_STEP * one_step.conditional[0]
    deep = fit_acceptance(lengths={3: 2.8}, kind="eagle3", k_max=10).survival.conditional
    assert deep[7] / deep[6] == pytest.approx(CLIFF, abs=0.01)


def test_rising_conditionals_are_a_mixture_of_easy_and_hard_rounds() -> None:
    truth = EasyHard(share=0.5, easy=0.92, hard=0.3)
    s = truth.survival(7)
    assert np.all(np.diff(s[1:] / s[:-1]) > 0)
    found = fit_easy_hard(s)
    assert found is not None
    np.testing.assert_allclose(found.survival(7), s, atol=0.01)
    assert truth.easy_share_after(7) > truth.easy_share_after(0) == truth.share
    assert fit_easy_hard(0.8 ** np.arange(1, 8)) is None


def test_block_drafters_say_their_block() -> None:
    notes = " ".join(fit_acceptance(lengths={7: 3.0}, kind="dflash", block_size=16).notes)
    assert "block of 16" in notes


def test_lists_measured_with_many_drafts_state_their_bias_at_few() -> None:
    """One MTP step accepts .834 where the first of eight accepts .762 (vLLM pull request 48892)."""
    from specadvisor.acceptance.effects import bias_at

    assert bias_at(8, 1) == pytest.approx(0.834 / 0.762, abs=0.01)
    assert "measured with 8 drafts" in " ".join(fit_acceptance(conditional=[0.76] * 8).notes)


def test_lookup_is_a_chance_of_a_match_times_acceptance_given_one() -> None:
    """vLLM pull request 24344: AL 4.59 per draft that fired, 821 of 5376 tokens without one, AL 2.96 over all rounds."""
    fired = from_cumulative([0.81, 0.74, 0.70, 0.68, 0.66])
    rounds_fired = (5376 - 821) / 4.59
    hit = hit_share(rounds_fired, rounds_fired + 821)
    over_all = over_all_rounds(fired, hit)
    assert float(over_all.acceptance_length(5)) == pytest.approx(2.96, abs=0.01)
    np.testing.assert_allclose(given_match(over_all, hit).s, fired.s)
    with pytest.raises(InputError, match="More rounds accept"):
        given_match(over_all, 0.1)
    with pytest.raises(InputError):
        over_all_rounds(fired, 0.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"conditional": [0.5], "alpha": 0.5},
        {"rate": 0.5},
        {"steps": [1, 2]},
        {"accepted": 5.0},
        {"alpha": 0.5, "kind": "eagle9"},
        {"conditional": [0.5], "rounds": 0},
        {"conditional": [0.5], "trained_depth": 0},
    ],
)
def test_incomplete_or_double_input_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        fit_acceptance(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stated",
    [
        {"accepted": [], "drafted": 100}, {"accepted": 10, "drafted": inf, "k": 3}, {"accepted": nan, "drafted": 9, "k": 3},
        {"accepted": ["a"], "drafted": [9]}, {"accepted": 10, "drafted": 30, "rounds": nan},
        {"accepted": 10, "drafted": 30, "rounds": "many"}, {"accepted": 10, "drafted": 30, "k": 0}, {"rate": 0.5, "k": nan},
        {"rate": 0.5, "k": inf}, {"rate": "half", "k": 3}, {"conditional": [0.8], "k_max": nan},
        {"conditional": [0.8], "k_max": 10**9}, {"conditional": [0.8], "trained_depth": nan},
        {"conditional": [0.8], "rounds": inf}, {"conditional": [0.8], "block_size": 1.5}, {"lengths": {nan: 2.0}},
        {"lengths": {3: "two"}}, {"lengths": {3: inf}}, {"histogram": {}}, {"histogram": ["a", 3]},
        {"histogram": [inf, 3]}, {"histogram": {nan: 3}}, {"steps": [["a"]], "k": 3}, {"steps": [[nan]], "k": 3},
        {"histogram": 5}, {"lengths": 3.1}, {"steps": 2, "k": 3},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_measurement_is_refused(stated: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        fit_acceptance(**stated)
