"""A tuner's state: it comes back whole, and what cannot be one is refused in one error that changes nothing."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from specadvisor.acceptance import from_conditional
from specadvisor.advise.tuner import Tuner
from specadvisor.advise.tuner_state import STATE_VERSION
from specadvisor.errors import InputError
from tests.advise.test_tuner import GOOD, LOADS, POOR, TIMES, new_tuner, serve

TINY = from_conditional([0.5, 0.5])


@pytest.fixture(scope="module")
def state() -> dict:
    tuner = new_tuner()
    serve(tuner, lambda n: POOR, 8, 300)
    serve(tuner, lambda n: GOOD, 1, 50)
    return json.loads(tuner.to_json())


def test_it_comes_back_whole(state: dict) -> None:
    tuner, other = new_tuner(), new_tuner()
    tuner.restore(json.dumps(state))
    other.restore(tuner.to_json())
    assert other.rounds == tuner.rounds == 350
    assert [other.choose(load) for load in LOADS] == [tuner.choose(load) for load in LOADS]
    np.testing.assert_allclose(other.survival.s, tuner.survival.s)


def changed(**fields: object) -> Callable[[dict], object]:
    return lambda state: {**state, **fields}


def at(name: str, index: int, value: object) -> Callable[[dict], object]:
    return lambda state: {**state, name: [*state[name][:index], value, *state[name][index + 1 :]]}


BROKEN: dict[str, Callable[[dict], object]] = {
    "version 1": changed(schema_version=1),
    "version true": changed(schema_version=True),
    "version 99": changed(schema_version=99),
    "a list": lambda state: [],
    "nothing": lambda state: {},
    "a number": lambda state: 5,
    "nan": at("passed", 0, float("nan")),
    "infinity": at("reached", 1, float("inf")),
    "negative": at("requests", 0, -1.0),
    "text": at("accepted", 0, "3"),
    "truth": at("accepted", 0, True),
    "a huge integer": at("reached", 0, 10**400),
    "more passed than reached": lambda state: {**state, "passed": [r + 1 for r in state["reached"]]},
    "more accepted than drafted": lambda state: {**state, "accepted": [r * 99 + 1 for r in state["requests"]]},
    "another k_max": lambda state: {**state, "reached": [*state["reached"], 0.0]},
    "no list": changed(passed={"0": 1}),
    "rounds infinite": changed(rounds=float("inf")),
    "rounds negative": changed(rounds=-1),
    "rounds true": changed(rounds=True),
    "rounds text": changed(rounds="12"),
    "unknown k": changed(current={"0": 77}),
    "k of no load": changed(current={"9": 3}),
    "a load that is none": changed(current={"x": 3}),
    "k a fraction": changed(current={"0": 2.5}),
    "current a list": changed(current=[3]),
    "trial negative": changed(since_trial={"0": -4}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_a_state_is_refused_and_changes_nothing(name: str, state: dict) -> None:
    tuner = new_tuner()
    tuner.restore(json.dumps(state))
    before = tuner.to_json()
    with pytest.raises(InputError, match="tuner state"):
        tuner.restore(json.dumps(BROKEN[name](state)))
    assert tuner.to_json() == before


@pytest.mark.parametrize("text", [None, 5, b"{}", "", "{", "nan", "[" * 100_000, ["{}"]])
def test_what_is_no_json_text_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="tuner state"):
        new_tuner().restore(text)  # type: ignore[arg-type]


def test_an_older_state_is_refused_with_what_to_do(state: dict) -> None:
    with pytest.raises(InputError, match="version 1; start the tuner without a state"):
        new_tuner().restore(json.dumps({**state, "schema_version": 1}))
    assert STATE_VERSION == 2


def test_a_state_with_k_that_this_tuner_may_not_choose_is_refused(state: dict) -> None:
    narrow = Tuner([0, 10], TIMES, GOOD)
    with pytest.raises(InputError, match="not among the candidates"):
        narrow.restore(json.dumps({**state, "current": {"0": 3}}))
