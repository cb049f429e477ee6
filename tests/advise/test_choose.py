from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.acceptance import from_alpha
from specadvisor.advise.choose import choose_k, plateau, verdict
from specadvisor.ranges import Range


def gains(*mid: float, width: float = 1.2) -> Range:
    values = np.array(mid)
    return Range(values / width, values, values * width)


@pytest.mark.parametrize(
    ("alpha", "cost", "k", "speedup"),
    [(0.6, 0.01, 7, 2.30), (0.6, 0.05, 4, 1.92), (0.6, 0.1, 3, 1.67), (0.7, 0.01, 9, 2.97), (0.7, 0.05, 6, 2.35),
     (0.7, 0.1, 4, 1.98), (0.8, 0.01, 14, 4.23), (0.8, 0.05, 8, 3.09), (0.8, 0.1, 6, 2.47), (0.9, 0.01, 24, 7.49),
     (0.9, 0.05, 13, 4.67), (0.9, 0.1, 10, 3.43)],
)  # fmt: skip
def test_leviathans_table_of_best_draft_lengths(alpha, cost, k, speedup):
    """Speed-up AL / (c k + 1), AL = (1 - alpha^(k+1)) / (1 - alpha); Leviathan et al. 2023."""
    ks = np.arange(1, 33)
    mid = np.asarray(from_alpha(alpha, 32).acceptance_length(ks)) / (cost * ks + 1)
    choice = choose_k(ks, Range(mid, mid, mid), acceptance_known=True)
    assert choice.gain.mid == pytest.approx(speedup, abs=0.005)
    assert k in choice.plateau
    assert abs(mid[k - 1] - mid.max()) < 0.003 * mid.max()


def test_five_and_six_tie_at_alpha_seven_tenths():
    ks = np.arange(1, 33)
    mid = np.asarray(from_alpha(0.7, 32).acceptance_length(ks)) / (0.05 * ks + 1)
    assert mid[4] == pytest.approx(mid[5], rel=2e-3)
    assert {5, 6} <= set(plateau(ks, mid))


def test_seven_drafts_of_a_layer_in_thirty_two():
    """NVIDIA part 3: S = AL / (1 + rho D) = 4 / (1 + 7/32) = 3.28."""
    choice = choose_k([7], gains(4.0 / (1.0 + 7.0 / 32.0)), acceptance_known=True)
    assert choice.gain.mid == pytest.approx(3.28, abs=0.005)


def test_known_acceptance_takes_the_best_and_may_say_off():
    assert choose_k([1, 2, 3], gains(1.2, 1.5, 1.4), acceptance_known=True).k == 2
    off = choose_k([1, 2, 3], gains(0.99, 0.9, 0.8), acceptance_known=True)
    assert (off.k, off.gain.mid, off.cautious) == (0, 1.0, 0)


def test_a_gain_within_the_plateau_is_left_off():
    near = choose_k([1, 2, 3], gains(1.01, 1.015, 0.97), acceptance_known=True)
    assert (near.k, near.plateau, near.cautious) == (0, (0, 1, 2), 0)
    assert choose_k([1, 2, 3], gains(1.01, 1.03, 0.97), acceptance_known=True).k == 2


def test_a_catalogue_value_alone_never_says_off():
    mid = np.array([0.95, 0.96, 0.97])
    trial = choose_k([1, 2, 3], gains(*mid), acceptance_known=False, favourable=1.1 * mid)
    assert (trial.k, trial.trial, trial.cautious) == (3, True, 0)
    costly = choose_k([1, 2, 3], gains(*mid), acceptance_known=False, favourable=1.04 * mid)
    assert (costly.k, costly.trial) == (0, False)
    assert choose_k([1, 2, 3], gains(*mid), acceptance_known=True, favourable=1.1 * mid).k == 0


def test_a_catalogue_value_leaves_the_usual_k_only_for_more_than_the_plateau():
    assert choose_k([1, 2, 3, 5], gains(1.2, 1.4, 1.5, 1.52), acceptance_known=False).k == 3
    assert choose_k([1, 2, 3, 5], gains(1.2, 1.4, 1.5, 1.6), acceptance_known=False).k == 5
    assert choose_k([7, 15], gains(1.5, 1.52), acceptance_known=False).k == 7
    assert choose_k([1, 2, 3, 5], gains(1.2, 1.4, 1.5, 1.52), acceptance_known=True).k == 5


def test_nothing_meets_the_limit():
    nothing = choose_k([1, 2], gains(0.0, 0.0), acceptance_known=True, plain=0.0)
    assert (nothing.k, nothing.plateau) == (0, (0,))


def test_a_limit_that_plain_decoding_misses_makes_any_gain_worth_it():
    assert choose_k([1, 2], gains(0.0, 0.9), acceptance_known=True, plain=0.0).k == 2


def test_plateau_holds_every_k_within_two_per_cent():
    assert plateau([1, 2, 3, 4], [1.4, 1.98, 2.0, 1.97]) == (2, 3, 4)
    assert plateau([1, 2], [1.01, 1.0]) == (0, 1, 2)


@pytest.mark.parametrize(("low", "high", "says"), [(1.1, 1.3, "gain"), (0.7, 0.9, "loss"), (0.9, 1.3, "not distinguishable")])
def test_a_win_inside_the_noise_is_not_a_win(low, high, says):
    assert verdict(Range(low, (low + high) / 2, high)) == says


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=12), st.booleans())
def test_the_choice_is_in_the_plateau_and_only_a_trial_may_be_expected_to_lose(mid, known):
    ks = list(range(1, len(mid) + 1))
    choice = choose_k(ks, gains(*mid), acceptance_known=known)
    assert choice.k in choice.shares
    if choice.trial:
        assert not known
        assert choice.gain.mid >= 0.98 * max(mid)
    else:
        assert choice.k in choice.plateau
        assert choice.gain.mid >= 0.98 * max(1.0, *mid)
    assert choice.cautious <= choice.k


def test_a_k_beyond_what_was_measured_needs_more_than_the_plateau():
    within = choose_k([1, 2, 3, 4], gains(1.2, 1.4, 1.5, 1.52), acceptance_known=True, reach=3)
    assert (within.k, within.plateau, within.shares) == (3, (3, 4), (3,))
    assert choose_k([1, 2, 3, 4], gains(1.2, 1.4, 1.5, 1.54), acceptance_known=True, reach=3).k == 4


def test_a_catalogue_value_takes_the_k_of_the_plateau_nearest_to_the_usual_one():
    two_regimes = choose_k(range(3, 11), gains(1.4, 1.52, 1.52, 1.52, 1.45, 1.5, 1.53, 1.53), acceptance_known=False)
    assert (two_regimes.k, two_regimes.plateau) == (4, (4, 5, 6, 8, 9, 10))
    assert two_regimes.shares == (4, 5, 6)
    assert choose_k([1, 2, 3], gains(1.5, 1.49, 1.3), acceptance_known=False).k == 2


def test_a_tier_may_run_what_is_within_one_per_cent():
    choice = choose_k([1, 2, 3, 4], gains(1.47, 1.478, 1.5, 1.492), acceptance_known=True)
    assert choice.plateau == (1, 2, 3, 4)
    assert choice.shares == (3, 4)
