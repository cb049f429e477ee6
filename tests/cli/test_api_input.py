"""What the Python API refuses: always ``InputError`` with the field, never a raw exception, never in silence."""

from __future__ import annotations

import numpy as np
import pytest

import specadvisor as sa
from specadvisor.errors import InputError


@pytest.fixture(scope="module")
def advisor() -> sa.Advisor:
    return sa.Advisor("qwen3-8b", "h200_sxm")


CALLS = {
    "no drafters in a sweep": (lambda a: a.sweep([]), "drafters"),
    "no drafters in a recommendation": (lambda a: a.recommend(8, drafters=[]), "drafters"),
    "group on no rank": (lambda a: a.deployment.model.group_size(0), "tp"),
    "anchor as a dictionary": (lambda a: a.recommend(8, drafters="eagle3", anchors=[{"k": 3}]), "anchor"),
    "anchor of a drafter that is not compared": (
        lambda a: a.sweep("eagle3", 3, 8, anchors=["concurrency=8,k=3,speedup=2,drafter=mtp"]), "anchor",
    ),
    "KV heads that do not divide": (lambda a: sa.kernels.attention_s("h200_sxm", 1, 1, 1024, 64, 7, 128), "kv_heads"),
    "batch as text": (lambda a: a.step("8", 1, 1024), "batch"),
    "context below the prompt": (lambda a: a.sweep("eagle3", 3, 8, 50, input_tokens=1000), "context"),
    "limit without goodput": (lambda a: a.recommend(8, drafters="eagle3", max_tpot_s=0.02), "max TPOT"),
    "shares above 1": (lambda a: a.recommend(8, drafters="eagle3", workload="coding:0.7,chat:0.7"), "workload"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_refused_by_name(advisor, name):
    call, field = CALLS[name]
    with pytest.raises(InputError) as error:
        call(advisor)
    assert error.value.field.startswith(field)


def test_grouped_heads_of_any_rank_are_fine():
    assert np.all(sa.kernels.attention_s("h200_sxm", 1, [1, 4], 1024, 6, 1.5, 128) > 0)


def test_csv_needs_no_path_and_repr_is_one_line(advisor):
    found = advisor.recommend(8, drafters="eagle3")
    assert found.to_csv().startswith("concurrency,") or "," in found.to_csv().splitlines()[0]
    assert len(repr(found)) < 200 and "qwen3-8b" in repr(found)
