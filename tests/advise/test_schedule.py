from __future__ import annotations

from itertools import pairwise

import numpy as np

from specadvisor.advise.choose import choose_k
from specadvisor.advise.schedule import make_schedule, schedule_loads
from specadvisor.ranges import Range

KS = np.array([1, 2, 3])
LOADS = [1, 2, 4, 8, 16]
# Rows k = 1, 2, 3; columns loads: best k 3, 3 (2 within 1%), 2, 1, 0.
GAIN = np.array([[1.2, 1.2, 1.2, 1.1, 0.9], [1.4, 1.495, 1.3, 1.0, 0.8], [1.6, 1.5, 1.2, 0.9, 0.7]])


def choices():
    return [choose_k(KS, Range(g, g, g), acceptance_known=True) for g in GAIN.T]


def scheduled(idle: float = 0.95):
    gain = Range(GAIN * 0.9, GAIN, GAIN * 1.1)
    return make_schedule("x", LOADS, choices(), KS, gain, np.full(5, idle), 2e9, np.full(5, 1e-3), LOADS)


def test_loads_share_a_tier_while_one_k_stays_close():
    tiers = scheduled().tiers
    assert [(t.low, t.high, t.k) for t in tiers] == [(1, 2, 3), (3, 4, 2), (5, 8, 1), (9, 16, 0)]


def of(gain, loads, stated):
    picked = [choose_k(KS, Range(g, g, g), acceptance_known=True) for g in gain.T]
    none = np.zeros(len(loads))
    tiers = make_schedule("x", loads, picked, KS, Range(gain, gain, gain), none + 1, 0.0, none, stated).tiers
    return [(t.low, t.high, t.k) for t in tiers]


def test_a_load_nobody_asked_for_makes_no_tier_of_its_own():
    """k = 3 is 5% short of the best at load 3 alone (graph padding does that)."""
    gain = np.array([[1.1, 1.1, 1.1, 1.1], [1.2, 1.2, 1.45, 1.2], [1.5, 1.5, 1.38, 1.5]])
    assert of(gain, [1, 2, 3, 4], [1, 4]) == [(1, 4, 3)]
    assert of(gain, [1, 2, 3, 4], [1, 3, 4]) == [(1, 2, 3), (3, 3, 2), (4, 4, 3)]


def test_a_tier_is_narrower_than_the_plateau():
    """k = 3 is within 2% of the best at every load, within 1% only up to load 2: k falls with load all the same."""
    gain = np.array([[1.1, 1.1, 1.1, 1.1], [1.45, 1.47, 1.4, 1.3], [1.5, 1.48, 1.38, 1.28]])
    assert of(gain, [1, 2, 4, 8], [1, 2, 4, 8]) == [(1, 2, 3), (3, 8, 2)]
    noise = np.array([[1.1, 1.1, 1.1, 1.1], [1.49, 1.48, 1.4, 1.3], [1.5, 1.47, 1.41, 1.29]])
    assert of(noise, [1, 2, 4, 8], [1, 2, 4, 8]) == [(1, 8, 2)]


def test_a_tier_ends_where_the_next_k_takes_over():
    gain = np.array([[1.1] * 5, [1.2, 1.25, 1.3, 1.35, 1.4], [1.5, 1.4, 1.32, 1.28, 1.2]])
    assert of(gain, [8, 9, 10, 12, 16], [8, 16]) == [(1, 10, 3), (11, 16, 2)]


def test_a_load_in_between_that_would_lose_is_off():
    gain = np.array([[1.0] * 3, [1.2, 0.9, 1.2], [1.1, 0.8, 1.1]])
    assert of(gain, [2, 3, 4], [2, 4]) == [(1, 2, 2), (3, 3, 0), (4, 4, 2)]


def trials(gain, favourable, loads, stated):
    picked = [
        choose_k(KS, Range(g, g, g), acceptance_known=False, favourable=f) for g, f in zip(gain.T, favourable.T, strict=True)
    ]
    none = np.zeros(len(loads))
    tiers = make_schedule("x", loads, picked, KS, Range(gain, gain, gain), none + 1, 0.0, none, stated).tiers
    return [(t.low, t.high, t.k) for t in tiers]


def test_no_load_in_between_is_off_below_a_trial():
    """At load 6 (graph padding) k = 3 loses even with the better acceptance; at 8 and 12 it would pay, at 16 no longer."""
    gain = np.array([[1.0, 0.8, 0.8, 0.8, 0.7], [1.1, 0.85, 0.9, 0.9, 0.75], [1.2, 0.9, 0.95, 0.95, 0.8]])
    factor = np.array([1.1, 1.1, 1.1, 1.1, 1.1])
    assert trials(gain, gain * factor, [4, 6, 8, 12, 16], [4, 16]) == [(1, 12, 3), (13, 16, 0)]


def test_a_load_in_between_where_another_k_gains_runs_that_one():
    gain = np.array([[1.0, 1.1, 1.0], [1.2, 0.95, 1.2], [1.5, 0.9, 1.5]])
    assert of(gain, [2, 3, 4], [2, 4]) == [(1, 2, 3), (3, 3, 1), (4, 4, 3)]


def test_gains_at_both_ends_of_a_tier():
    first = scheduled().tiers[0]
    assert (first.at_low.mid, first.at_high.mid) == (1.6, 1.5)


def test_crossover_is_the_load_from_which_it_does_not_pay():
    assert scheduled().crossover == 9
    assert scheduled().k_at(1) == 3
    assert scheduled().k_at(10_000) == 0


def test_a_loaded_drafter_idles_only_where_that_is_better_than_using_it():
    off = scheduled(idle=0.95).tiers[-1]
    assert (off.k, off.deployed_k) == (0, 0)
    kept = scheduled(idle=0.85).tiers[-1]
    assert (kept.k, kept.deployed_k) == (0, 1)
    assert kept.held_bytes == 2e9
    assert kept.idle_s == 1e-3


def test_loads_are_quarter_octaves_and_the_stated_ones():
    loads = schedule_loads(256, [100])
    assert loads[0] == 1
    assert loads[-1] == 256
    assert 100 in loads
    assert all(b / a <= 2**0.25 * 1.3 or b - a == 1 for a, b in pairwise(loads))
