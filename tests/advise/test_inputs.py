from __future__ import annotations

import numpy as np
import pytest

from specadvisor.acceptance import from_cumulative
from specadvisor.advise.acceptance_input import curves, parse_acceptance, split_drafter
from specadvisor.advise.candidates import candidates
from specadvisor.drafters import load_drafter
from specadvisor.errors import InputError

from .conftest import EAGLE3_32B


def test_five_ways_to_state_acceptance():
    np.testing.assert_allclose(parse_acceptance("conditional:0.8,0.5").s, [0.8, 0.4])
    np.testing.assert_allclose(parse_acceptance("cumulative: 0.8; 0.4").s, [0.8, 0.4])
    assert float(parse_acceptance("al:2.2@3").acceptance_length(3)) == pytest.approx(2.2)
    assert float(parse_acceptance("2.2@3").acceptance_length(3)) == pytest.approx(2.2)
    assert float(parse_acceptance("rate:0.4@3").acceptance_length(3)) == pytest.approx(2.2)
    np.testing.assert_allclose(parse_acceptance("alpha:0.5").s[:3], [0.5, 0.25, 0.125])
    assert all(parse_acceptance(text).known for text in ("alpha:0.5", "al:2@3", "conditional:0.5"))


@pytest.mark.parametrize(
    "text",
    ["", "0.8", "0.8,0.6", "al:2.2", "al:2.2@three", "al:9@3", "rate:1.4@3", "alpha:2", "conditional:", "cumulative:a,b",
     "cumulative:0.5,0.7", "histogram:1,2", "conditional:-0.1"],
)  # fmt: skip
def test_what_states_nothing_is_refused(text):
    with pytest.raises(InputError):
        parse_acceptance(text)


def test_a_bare_list_asks_which_list_it_is():
    with pytest.raises(InputError, match=r"conditional: .* or cumulative:"):
        parse_acceptance("0.8,0.6,0.4")


def test_a_drafter_may_stand_before_its_curve():
    assert split_drafter("eagle-3=al:2.2@3") == ("eagle3", "al:2.2@3")
    assert split_drafter("al:2.2@3") == ("", "al:2.2@3")
    with pytest.raises(InputError, match="not a drafter"):
        split_drafter("medusa9=al:2@3")


def test_each_drafter_gets_its_own_curve_or_the_catalogues(small):
    drafters = [load_drafter(kind, small.deployment.model) for kind in ("eagle3", "ngram")]
    found, _ = curves({"eagle3": from_cumulative([0.5, 0.2])}, drafters, "coding", 0.0)
    assert found["eagle3"].known
    assert not found["ngram"].known
    np.testing.assert_allclose(found["eagle3"].s[:2], [0.5, 0.2])


def test_positions_beyond_a_list_are_said_to_be_assumed(small):
    drafter = load_drafter("eagle3", small.deployment.model)
    _, notes = curves("cumulative:0.5,0.2", [drafter], "mixed", 0.0)
    assert len(notes) == 1
    assert "positions 3 to" in notes[0]


def test_a_drafter_for_another_model_is_refused_with_the_reason(small):
    with pytest.raises(InputError, match="width"):
        candidates(small.deployment, f"eagle3:{EAGLE3_32B}", None, "mixed", 0.0)


def test_a_drafter_the_engine_lacks_is_refused_with_the_reason(small):
    with pytest.raises(InputError, match="vllm"):
        candidates(small.deployment, "medusa", None, "mixed", 0.0)


def test_two_of_one_kind_are_told_apart(tight):
    found = candidates(tight.deployment, ["eagle3", "eagle3"], None, "mixed", 0.0)
    assert [d.name for d in found.drafters] == ["eagle3", "eagle3 #2"]
    assert set(found.survival) == {"eagle3", "eagle3 #2"}


def test_a_modifier_changes_name_and_acceptance(small):
    plain = candidates(small.deployment, "eagle3", None, "mixed", 1.0)
    block = candidates(small.deployment, "eagle3", None, "mixed", 1.0, ["block-verification"])
    assert "block" in block.drafters[0].name
    gained = float(block.survival[block.drafters[0].name].acceptance_length(5))
    assert gained > float(plain.survival["eagle3"].acceptance_length(5))


def test_families_that_cannot_run_are_left_out_with_the_reason(small):
    found = candidates(small.deployment, None, None, "mixed", 0.0)
    kinds = {drafter.kind for drafter in found.drafters}
    assert not kinds & found.excluded.keys()
    assert "ships none" in found.excluded["mtp"]
    assert "no such method" in found.excluded["domino"] or "vllm" in found.excluded["domino"]
