"""Intervals of counted measurements: few samples are wide, none or all accepted keep a width, ends fit together."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specadvisor.acceptance import fit_acceptance, from_counts, from_histogram
from specadvisor.errors import InputError


def ends(at: int = 3, **stated: Any) -> tuple[float, float, float]:
    interval = fit_acceptance(**stated).interval(at)
    return float(interval.low), float(interval.mid), float(interval.high)


def test_one_total_of_drafted_tokens_beside_a_list_of_accepted_is_drafted_by_all_positions() -> None:
    """vLLM's counters: accepted by position 800, 560, 336, 3000 draft tokens of 1000 rounds."""
    fit = fit_acceptance(accepted=[800, 560, 336], drafted=3000, k=3)
    assert fit.rounds == 1000
    assert float(fit.survival.acceptance_length(3)) == pytest.approx(1 + 0.8 + 0.56 + 0.336, abs=0.01)
    assert fit_acceptance(accepted=[800, 560, 336], drafted=3000, rounds=3000).rounds == 3000
    with pytest.raises(InputError, match="one count per position, or a total together with k"):
        fit_acceptance(accepted=[800, 560, 336], drafted=3000)
    # Too few for a total of three positions: these are rounds.
    assert fit_acceptance(accepted=[1600, 1240, 940], drafted=2000).rounds == 2000
    with pytest.raises(InputError, match="at most the 666"):
        fit_acceptance(accepted=[1600, 1240, 940], drafted=2000, k=3)


@pytest.mark.parametrize(
    ("stated", "measured"),
    [
        ({"histogram": [5]}, 1.0), ({"histogram": [5, 0, 0, 0]}, 1.0), ({"accepted": 0, "drafted": 300, "k": 3}, 1.0),
        ({"lengths": {3: 1.0}, "rounds": 10}, 1.0), ({"accepted": [0, 0, 0], "drafted": [100] * 3}, 1.0),
        ({"accepted": 300, "drafted": 300, "k": 3}, 4.0), ({"accepted": 3, "drafted": 3, "k": 3}, 4.0),
        ({"histogram": [0, 0, 0, 100]}, 4.0), ({"histogram": [0, 0, 0, 2]}, 4.0), ({"lengths": {3: 4.0}, "rounds": 1}, 4.0),
    ],
    ids=str,
)  # fmt: skip
def test_none_or_all_accepted_keeps_a_width_and_the_measured_length(stated: dict[str, Any], measured: float) -> None:
    low, mid, high = ends(**stated)
    assert low <= measured <= high
    assert high - low > 0.02
    assert low <= mid <= high
    for kind in ("eagle3", "ngram", "dflash"):
        low, _, high = ends(kind=kind, **stated)
        assert low <= measured <= high


def test_more_rounds_without_an_accepted_draft_are_surer() -> None:
    widths = [ends(accepted=0, drafted=3 * n, k=3) for n in (1, 10, 100, 1000, 10_000)]
    assert all(after[2] < before[2] for before, after in pairwise(widths))
    assert widths[0][2] > 1.5
    assert widths[-1][2] < 1.01
    certain = [ends(accepted=3 * n, drafted=3 * n, k=3) for n in (1, 10, 100, 1000, 10_000)]
    assert all(after[0] > before[0] for before, after in pairwise(certain))
    assert certain[0][0] < 2.6


counts = st.lists(st.integers(0, 400), min_size=2, max_size=8).filter(lambda c: sum(c) >= 1)


@settings(max_examples=60, deadline=None)
@given(counts, st.sampled_from([None, "eagle3", "dflash", "ngram"]))
def test_intervals_of_one_curve_fit_together(histogram: list[int], kind: str | None) -> None:
    """AL(j) <= AL(k) and (AL(j) - 1) / j >= (AL(k) - 1) / k for j < k hold for both ends; the measured AL lies inside."""
    n = len(histogram) - 1
    k = np.arange(1, n + 1)
    interval = fit_acceptance(histogram=histogram, kind=kind).survival.range(k)
    measured = from_histogram(histogram).acceptance_length(min(n, max(j for j, c in enumerate(histogram) if c) or 1))
    assert float(interval.low[-1]) <= float(measured) + 1e-9
    raw = 1 + np.cumsum([sum(histogram[j:]) for j in k]) / sum(histogram)
    assert np.all((interval.low <= raw + 1e-9) & (raw <= interval.high + 1e-9))
    assert np.all(interval.low < interval.high)
    assert np.all(np.diff(interval.high) >= -1e-9)
    assert np.all(interval.high <= k + 1 + 1e-9)
    assert np.all(np.diff((interval.low - 1) / k) <= 1e-9)


def test_one_round_is_wide_and_less_than_one_is_no_count() -> None:
    low, _, high = ends(lengths={3: 2.5}, rounds=1)
    assert high - low > 1.5
    low, _, high = ends(at=1, cumulative=[0.5], rounds=1)
    assert high - low > 0.4
    for stated in (
        {"lengths": {3: 2.5}, "rounds": 0.001}, {"cumulative": [0.5], "rounds": 1e-9}, {"histogram": [0.2, 0.3]},
        {"accepted": 0.1, "drafted": 0.5, "k": 1}, {"histogram": [1e308, 1e308]}, {"cumulative": [0.5], "rounds": True},
    ):  # fmt: skip
        with pytest.raises(InputError, match="round"):
            fit_acceptance(**stated)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"accepted": 100, "drafted": 300, "k": 3, "rounds": 50}, r"at most k \* rounds = 150"),
        ({"cumulative": [0.8, 0.6], "k": 1}, "at least the 2 drafts"),
        ({"histogram": [3, 2, 1], "k": 1}, "at least the 2 drafts"),
        ({"lengths": {3: 2.5}, "k": 2}, "at least the 3 drafts"),
        ({"cumulative": [0.8, 0.6, 0.5], "kind": "dflash", "block_size": 2}, "3 drafts were measured"),
        ({"lengths": {15: 4.0}, "kind": "dflash", "block_size": 8}, "15 drafts were measured"),
        ({"lengths": {3: 2.5}, "kind": "eagle3", "block_size": 8}, "predicts no block"),
        ({"histogram": [3, 2], "rounds": 6}, "the 5 rounds of the histogram"),
        ({"accepted": [5, 4, 3], "drafted": [9, 9, 9], "k": 2}, "at least the 3 positions"),
        ({"accepted": [5, 4], "drafted": [9, 9, 9]}, "as many drafted"),
        ({"lengths": {3: 2.5}, "drafted": 3}, "together with accepted"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(stated: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        fit_acceptance(**stated)


def test_a_block_of_dspark_predicts_at_its_anchor_too() -> None:
    assert fit_acceptance(cumulative=[0.8, 0.6, 0.5], kind="dspark", block_size=3).survival.k_max == 16
    assert "block of 16" in " ".join(fit_acceptance(lengths={7: 3.0}, kind="dflash", block_size=16).notes)


def test_totals_of_more_rounds_than_drafted_count_the_rounds_without_a_draft() -> None:
    assert float(from_counts(100, 300, k=3, rounds=400).acceptance_length(3)) == pytest.approx(1.25)
