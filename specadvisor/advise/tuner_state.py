"""A tuner's state as JSON: written, and read back only where every number of it can be meant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.checks import whole
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

STATE_VERSION = 2
LARGEST_COUNT = 1_000_000_000
_ROWS = ("reached", "passed", "requests", "accepted", "rounds_of_sums", "squares")
_SLACK = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class TunerState:
    """``counts`` (6, k_max) as in ``position_posterior.py``; by load index: the k in use and the rounds since a trial."""

    counts: FloatArray
    rounds: int
    current: dict[int, int]
    since_trial: dict[int, int]

    def to_json(self) -> str:
        """The state with its version."""
        state = {
            "schema_version": STATE_VERSION, **dict(zip(_ROWS, self.counts.tolist(), strict=True)),
            "rounds": self.rounds, "current": self.current, "since_trial": self.since_trial,
        }  # fmt: skip
        return json.dumps(state)


def read_state(text: str, candidates: list[int], k_max: int, loads: int) -> TunerState:
    """The state in ``text`` for a tuner with these candidates and this many loads; raises ``InputError``."""
    accepted = f"what to_json wrote (schema_version {STATE_VERSION})"
    shown = text[:60] if isinstance(text, str) else text
    try:
        if not isinstance(text, str):
            raise TypeError("not text")
        state = json.loads(text)
        version = state["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError("tuner state", shown, accepted) from None
    if version != STATE_VERSION or isinstance(version, bool):
        hint = f"This is version {version!r}; start the tuner without a state, it learns anew within some hundred rounds."
        raise InputError("tuner state", shown, accepted, hint)
    try:
        return _checked(state, candidates, k_max, loads)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError("tuner state", shown, accepted, f"Not usable: {error}.") from None


def _checked(state: dict[str, Any], candidates: list[int], k_max: int, loads: int) -> TunerState:
    counts = np.array([_numbers(row, state[row], k_max) for row in _ROWS])
    reached, passed, requests, accepted = counts[:4]
    if np.any(passed > reached + _SLACK):
        raise ValueError("more rounds passed a position than reached it")
    if np.any(accepted > requests * np.arange(1, k_max + 1) + _SLACK):
        raise ValueError("more drafts accepted than made")
    current = _by_load("current", state["current"], loads, max(candidates))
    if unknown := set(current.values()) - set(candidates):
        raise ValueError(f"k = {min(unknown)}, which is not among the candidates")
    since = _by_load("since_trial", state["since_trial"], loads, LARGEST_COUNT)
    rounds = _count("rounds", state["rounds"], LARGEST_COUNT)
    return TunerState(counts, rounds, current, since)


def _numbers(field: str, values: Any, k_max: int) -> FloatArray:
    if not isinstance(values, list) or len(values) != k_max:
        raise ValueError(f"{field} is not a list of {k_max} numbers, one per draft position of this tuner")
    if not all(isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= LARGEST_COUNT for v in values):
        raise ValueError(f"{field} holds what no count can be")
    return np.array(values, dtype=float)


def _by_load(field: str, values: Any, loads: int, high: int) -> dict[int, int]:
    if not isinstance(values, dict):
        raise ValueError(f"{field} is not an object")
    return {int(_digits(field, slot, loads)): _count(field, value, high) for slot, value in values.items()}


def _digits(field: str, slot: str, loads: int) -> str:
    if not (slot.isascii() and slot.isdecimal() and len(slot) < 7 and int(slot) < loads):
        raise ValueError(f"{field} of load {slot[:20]!r}, where the table has {loads}")
    return slot


def _count(field: str, value: Any, high: int) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{field} is not a whole number")
    return whole(field, value, 0, high)
