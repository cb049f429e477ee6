from __future__ import annotations

import math

import pytest

from specadvisor.advise.anchor import Anchor, correction, parse_anchor
from specadvisor.errors import InputError
from specadvisor.ranges import Range

from .conftest import EAGLE3_32B


def test_three_ways_to_state_a_measurement():
    assert parse_anchor("concurrency=1,k=3,speedup=1.9") == Anchor(1, 3, 1.9)
    pair = parse_anchor("concurrency=8, k=2, base_tpot_ms=34, tpot_ms=17")
    assert (pair.speedup, pair.quantity, pair.base_tpot_s) == (2.0, "tpot", 0.034)
    assert parse_anchor("concurrency=1,k=3,tpot_speedup=1.9,drafter=eagle-3").drafter == "eagle3"


@pytest.mark.parametrize(
    "text",
    ["", "concurrency=1", "concurrency=1,k=3", "concurrency=1,k=3,speedup=fast", "concurrency=1,k=2.5,speedup=2",
     "c=1,k=3,speedup=2",
     "concurrency=1,k=3,speedup=1.9,tpot_speedup=1.8", "concurrency=1,k=3,tpot_ms=18", "concurrency=0,k=3,speedup=1.5",
     "concurrency=1,k=3,speedup=50", "concurrency=1,k=0,speedup=1", "concurrency=1,k=3,k=3,speedup=2",
     "concurrency=1,k=3,base_tpot_ms=30,tpot_ms=0"],
)  # fmt: skip
def test_what_is_no_measurement_is_refused(text):
    with pytest.raises(InputError, match="anchor"):
        parse_anchor(text)


def test_one_anchor_moves_its_load_by_its_correction_to_the_power_of_eight_tenths_and_others_less():
    fix = correction([Anchor(1, 3, 1.8)], [1.5])
    assert fix.apply(Range.log_normal(2.0, 0.2), 1).mid == pytest.approx(2.0 * (1.8 / 1.5) ** 0.8)
    moved = fix.apply(Range.log_normal(2.0, 0.2), 64)
    assert moved.mid == pytest.approx(2.0 * (1.8 / 1.5) ** (0.8 * 0.9**6))
    before = math.log(Range.log_normal(2.0, 0.2).high / 2.0)
    assert math.log(moved.high / moved.mid) < before


def test_a_right_prediction_changes_nothing_but_the_certainty():
    fix = correction([Anchor(1, 3, 1.5)], [1.5])
    assert fix.apply(Range.log_normal(2.0, 0.2), 8).mid == pytest.approx(2.0)


def test_the_anchor_nearer_in_load_weighs_more():
    fix = correction([Anchor(1, 3, 1.5), Anchor(256, 3, 1.2)], [1.5, 1.0])
    low, high = float(fix.log_factor(1)), float(fix.log_factor(256))
    assert 0 < low < high < 0.8 * math.log(1.2)


def test_contradicting_anchors_are_reported():
    assert not correction([Anchor(1, 3, 1.5), Anchor(2, 3, 1.5)], [1.5, 1.45]).contradictions
    notes = correction([Anchor(1, 3, 1.9), Anchor(1, 4, 1.2)], [1.5, 1.6]).contradictions
    assert len(notes) == 1
    assert "disagree" in notes[0]


def test_recommend_follows_an_anchor_and_says_so(tight):
    question = {"drafters": f"eagle3:{EAGLE3_32B}", "acceptance": "conditional:0.63,0.56,0.53,0.48"}
    free = tight.recommend([1, 32], **question)
    tied = tight.recommend([1, 32], anchors=["concurrency=1,k=3,speedup=1.5"], **question)
    predicted = next(o for o in free.at(1) if o.k == 3).throughput_speedup.mid
    corrected = next(o for o in tied.at(32) if o.k == 3).throughput_speedup.mid
    raw = next(o for o in free.at(32) if o.k == 3).throughput_speedup.mid
    assert corrected / raw == pytest.approx((1.5 / predicted) ** (0.8 * 0.9**5))
    assert any("measured 1.50x" in note for note in tied.anchors)


def test_an_anchor_names_its_drafter_where_several_are_compared(tight):
    with pytest.raises(InputError, match="drafter"):
        tight.recommend([1], anchors=["concurrency=1,k=3,speedup=1.5"])
    named = tight.recommend([1], anchors=["concurrency=1,k=3,speedup=1.5,drafter=eagle3"])
    assert len(named.anchors) == 1
