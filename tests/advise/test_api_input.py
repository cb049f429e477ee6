"""Values that cannot be meant, given to the Python interface: each is refused with one error that names it."""

from __future__ import annotations

from math import inf, nan

import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.errors import InputError

TRAINING = {"gpu_price": 2.0, "train_gpu_hours": 8.0}


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda a: a.step(1, nan, 1024), "query_tokens"),
        (lambda a: a.step(1, inf, 1024), "query_tokens"),
        (lambda a: a.step(0, 1, 1024), "batch"),
        (lambda a: a.step(1, 1, "long"), "context"),
        (lambda a: a.evaluate("eagle3", 3, nan, 1024), "concurrency"),
        (lambda a: a.evaluate("eagle3", 3, 0, 1024), "concurrency"),
        (lambda a: a.evaluate("eagle3", nan, 8, 1024), "k"),
        (lambda a: a.evaluate("eagle3", 3, 8, inf), "context"),
        (lambda a: a.tuner("eagle3", [0, 8]), "concurrency"),
        (lambda a: a.tuner("eagle3", []), "concurrency"),
        (lambda a: a.tuner("eagle3", [1, 8], inf), "context"),
        (lambda a: a.tuner("eagle3", [1, 8], k_max=0), "k_max"),
        (lambda a: a.tuner("eagle3", [1, 8], margin=nan), "margin"),
        (lambda a: a.tuner("eagle3", [1, 8], explore_every=inf), "explore_every"),
        (lambda a: a.started_for([]), "concurrency"),
        (lambda a: a.recommend(8.5), "concurrency"),
        (lambda a: a.recommend([1], drafters=0), "drafters"),
        (lambda a: a.recommend([1], drafters=["eagle3", None]), "drafters"),
        (lambda a: a.recommend([1], drafters="eagle3", acceptance=0), "acceptance"),
        (lambda a: a.recommend([1], drafters="eagle3", acceptance={"eagle3": 0.7}), "acceptance"),
        (lambda a: a.recommend([1], drafters="eagle3", **TRAINING | {"gpu_price": [0]}), "GPU price"),
        (lambda a: a.recommend([1], drafters="eagle3", **TRAINING | {"gpu_price": True}), "GPU price"),
        (lambda a: a.recommend([1], drafters="eagle3", **TRAINING | {"train_gpu_hours": "many"}), "training GPU hours"),
        (lambda a: a.recommend([1], drafters="eagle3", anchors=0), "anchor"),
        (lambda a: a.sweep("eagle3", executor="8"), "executor"),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_meant(small, call, field):
    with pytest.raises(InputError) as error:
        call(small)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        ({"power_limit_w": "8"}, "power limit"),
        ({"power_limit_w": nan}, "power limit"),
        ({"engine_version": 1.5}, "engine version"),
        ({"memory_fraction": nan}, "memory fraction"),
        ({"kv_pool_tokens": inf}, "KV pool (tokens)"),
    ],
)
def test_a_deployment_that_cannot_be_meant(stated, field):
    with pytest.raises(InputError) as error:
        Advisor("qwen3-8b", "h200_sxm", **stated)
    assert error.value.field == field


def test_a_number_in_text_counts_as_the_number(small):
    text = small.recommend([8], drafters="eagle3", gpu_price="2", train_gpu_hours="8").break_even
    assert text == small.recommend([8], drafters="eagle3", gpu_price=2.0, train_gpu_hours=8.0).break_even
