"""Break-even of training a drafter, counted by hand; and how a new acceptance enters the command that was typed."""

import pytest

from specadvisor.advise.break_even import break_even, payback
from specadvisor.advise.measure import with_acceptance
from specadvisor.errors import InputError
from specadvisor.ranges import Range

MONEY = {"gpu_price": 2.0, "train_gpu_hours": 300.0}
ONE = Range(1.0, 1.0, 1.0)


def test_tokens_are_the_cost_of_training_over_what_a_token_saves() -> None:
    """600 of training; a token costs 1e-6 plain and half that at 2x, so 1.2e9 tokens; at 2000 tok/s that is 6.94 days."""
    one = payback("plain", 600.0, 1e-6, ONE, Range(1.0, 2.0, 4.0), 1000.0)
    assert one.saved_per_million_tokens.mid == pytest.approx(0.5)
    assert (one.tokens.low, one.tokens.mid, one.tokens.high) == pytest.approx((8e8, 1.2e9, float("inf")))
    assert one.days.mid == pytest.approx(1.2e9 / 2000 / 86400)


def test_against_a_drafter_at_hand_only_the_difference_counts() -> None:
    """2x against 1.6x: a token costs 0.5e-6 and not 0.625e-6."""
    one = payback("other", 600.0, 1e-6, Range(1.6, 1.6, 1.6), Range(2.0, 2.0, 2.0), 1000.0)
    assert one.tokens.mid == pytest.approx(600 / 0.125e-6)
    assert payback("other", 600.0, 1e-6, Range(2.2, 2.2, 2.2), Range(2.0, 2.0, 2.0), 1e3).tokens.mid == float("inf")


def test_it_is_answered_for_the_one_that_has_to_be_trained(small) -> None:
    answer = small.recommend([8], drafters=["eagle3", "dflash2"], **MONEY)
    even = answer.break_even
    assert even.drafter == "dflash2"
    assert [one.against for one in even.against] == ["plain decoding", "eagle3 (published for this model)"]
    assert even.against[1].tokens.mid > even.against[0].tokens.mid
    text = answer.table()
    assert "training dflash2 for 300 GPU hours costs 600 (currency units of --gpu-price)" in " ".join(text.split())
    choice, plain = answer.curves["dflash2"].choices[0], answer.plain[0].throughput_tok_s
    saved_per_token = 2.0 / 3600 / plain * (1 - 1 / choice.gain.mid)
    assert even.against[0].tokens.mid == pytest.approx(600 / saved_per_token)


@pytest.mark.parametrize("name", ["eagle3", "ngram"])
def test_what_needs_no_training_is_said_so(small, name: str) -> None:
    even = small.recommend([8], drafters=name, **MONEY).break_even
    assert even.drafter is None
    assert even.against == ()
    assert "none of the drafters compared needs training" in even.sentences()[0]


def test_a_drafter_that_does_not_gain_never_pays(small) -> None:
    answer = small.recommend([256], 512, 64, drafters="dflash2", acceptance="alpha:0.02", **MONEY)
    assert answer.break_even.against[0].tokens.mid == float("inf")
    assert "never pays" in answer.break_even.sentences()[1]


@pytest.mark.parametrize("wrong", [True, 0, -1.0, float("nan"), float("inf")])
def test_a_price_is_a_number_above_zero(small, wrong: float) -> None:
    answer = small.recommend([8], drafters="dflash2")
    with pytest.raises(InputError, match="GPU price"):
        break_even(answer.curves, answer.load, [1000.0], 1, wrong, 100.0)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("x -a p_eagle=al:3.1@5", "x"), ("x -ap-eagle=al:3.1@5 -c 1", "x -c 1"), ("x --acceptance=al:3.1@5", "x"),
        ("x --acceptance p_eagle=al:3@5 -a p_eagle=al:2@2", "x"), ("x -a eagle3=al:2@3", "x -a eagle3=al:2@3"),
        ("x --acceptance=eagle3=al:2@3", "x --acceptance=eagle3=al:2@3"), ("x --workload 'coding:1'", "x --workload coding:1"),
    ],
)  # fmt: skip
def test_a_new_acceptance_takes_the_place_of_the_earlier_one(typed: str, kept: str) -> None:
    assert with_acceptance(typed, "p_eagle", "p_eagle=al:2@4") == f"{kept} --acceptance p_eagle=al:2@4"
