from __future__ import annotations

import numpy as np
import pytest

from specadvisor.advise.uncertainty import acceptance_sigma, log_ratio_sigma, operator_sigmas, same_operator, sigma_of_band
from specadvisor.ranges import Range
from specadvisor.step import StepTime

SIGMAS = {"gemm": 0.1, "attention": 0.2, "prefill": 0.3}
NONE, ONE = np.zeros(()), np.ones(())


def time(**seconds: float) -> StepTime:
    return StepTime({name: np.asarray(value) for name, value in seconds.items()})


def test_an_error_that_scales_both_times_cancels():
    base, spec = time(gemm=0.8, attention=0.2), time(gemm=1.6, attention=0.4)
    assert log_ratio_sigma(base, spec, ONE, NONE, NONE, SIGMAS, NONE, 0.0) == pytest.approx(0.0)


def test_shares_that_move_leave_their_difference():
    base, spec = time(gemm=0.9, attention=0.1), time(gemm=0.6, attention=0.4)
    expected = np.hypot(0.3 * 0.1, 0.3 * 0.2)
    assert log_ratio_sigma(base, spec, ONE, NONE, NONE, SIGMAS, NONE, 0.0) == pytest.approx(expected)


def test_errors_at_more_rows_go_together_less():
    """One operator that is all of both times: sqrt(2 (1 - r)) of its error is left of the ratio, none at equal rows."""
    step = time(gemm=1.0)
    rows = np.array([1.0, 2.0, 4.0, 8.0, 1e6])
    left = log_ratio_sigma(step, step, rows, NONE, NONE, SIGMAS, NONE, 0.0)
    assert left == pytest.approx(0.1 * np.sqrt(2.0 * np.array([0.0, 0.19, 0.38, 0.57, 1.0])))
    assert np.all(np.diff(same_operator(rows)) < 0) and same_operator(rows[-1]) == 0.0


def test_acceptance_counts_only_for_the_part_that_is_not_prefill():
    step = time(gemm=1.0)
    assert log_ratio_sigma(step, step, ONE, NONE, NONE, SIGMAS, np.asarray(0.2), 0.0) == pytest.approx(0.2)
    half = log_ratio_sigma(step, step, ONE, np.asarray(1.0), np.asarray(1.0), SIGMAS, np.asarray(0.2), 0.0)
    assert half == pytest.approx(0.1)


def test_the_residual_is_what_is_left_when_all_else_is_known():
    step = time(gemm=1.0)
    assert log_ratio_sigma(step, step, ONE, NONE, NONE, SIGMAS, NONE, 0.08) == pytest.approx(0.08)


def test_interval_of_a_length_gives_its_sigma_back():
    assert acceptance_sigma(Range.log_normal(2.5, 0.3)) == pytest.approx(0.3)


def test_median_and_p90_of_a_normal_law_agree():
    sigma = 0.1
    assert sigma_of_band(0.6745 * sigma, 1.6449 * sigma) == pytest.approx(sigma, rel=1e-3)


def test_every_component_of_a_step_has_an_error(small):
    step = small.step(8, 4, 2048)
    assert step.components.keys() <= operator_sigmas(small.deployment).keys()
