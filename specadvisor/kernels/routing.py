"""How many different experts a batch of tokens needs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

_NAMED = {"uniform": 0.0, "power_law": 1.0}


def distinct_experts(tokens: Any, experts: int, top_k: int, skew: float = 0.0) -> FloatArray:
    """Expected number of different experts that ``tokens`` tokens choose, each ``top_k`` of ``experts``.

    Independent uniform choices: ``E (1 - (1 - k/E)^T)``. ``skew`` is the Zipf exponent of expert popularity; then
    ``sum_i 1 - (1 - q_i)^T`` with ``q_i`` the chance that a token includes expert i. Tokens of one sequence route more
    alike than independent ones, so for draft tokens this is an upper bound.
    """
    check_choice(experts, top_k)
    tokens = np.asarray(tokens, dtype=np.float64)
    if tokens.size and not 0.0 <= tokens.min() <= tokens.max() < np.inf:
        raise InputError("tokens", tokens.tolist(), "finite numbers of 0 or more")
    if skew == 0.0 or top_k >= experts:
        return experts * -np.expm1(tokens * np.log1p(-min(top_k / experts, 1.0 - 1e-15)))
    missed = np.log1p(-np.minimum(inclusion(experts, top_k, skew), 1.0 - 1e-15))
    return np.asarray(-np.expm1(tokens[..., np.newaxis] * missed).sum(axis=-1))


def check_choice(experts: int, top_k: int) -> None:
    """Refuse numbers of experts that no layer has: none, infinitely many, or fewer than a token chooses."""
    if not isinstance(experts, int | np.integer) or experts < 1:
        raise InputError("experts", experts, "a whole number of 1 or more")
    if not isinstance(top_k, int | np.integer) or not 1 <= top_k <= experts:
        raise InputError("top_k", top_k, f"1 to the number of experts ({experts})")


def active_experts(tokens: Any, experts: int, top_k: int, routing: str | float = "uniform") -> FloatArray:
    """Different experts under a routing: ``balanced``, ``uniform``, ``power_law`` or a Zipf exponent."""
    if routing == "balanced":
        return balanced_experts(tokens, experts, top_k)
    return distinct_experts(tokens, experts, top_k, skew_of(routing))


def balanced_experts(tokens: Any, experts: int, top_k: int) -> FloatArray:
    """Different experts if tokens avoid each other's: ``min(E, k T)``; what balanced benchmark routing does."""
    return np.minimum(float(experts), np.maximum(np.asarray(tokens, dtype=np.float64) * top_k, top_k))


@cache
def inclusion(experts: int, top_k: int, skew: float) -> FloatArray:
    """Chance of each expert to be among a token's ``top_k``, popularity ``rank^-skew``, none above 1, sum ``top_k``."""
    weights = np.arange(1, experts + 1, dtype=np.float64) ** -skew
    chance = weights * top_k / weights.sum()
    while (full := chance > 1.0).any():
        chance[full] = 1.0
        rest = chance < 1.0
        chance[rest] *= (top_k - (~rest).sum()) / chance[rest].sum()
    return chance


def skew_of(routing: str | float) -> float:
    """Zipf exponent of a routing name or number."""
    if isinstance(routing, str):
        if routing not in _NAMED:
            raise InputError("routing", routing, "uniform, balanced, power_law or a Zipf exponent from 0 to 3")
        return _NAMED[routing]
    if not 0.0 <= routing <= 3.0:
        raise InputError("routing", routing, "a Zipf exponent from 0 to 3")
    return float(routing)
