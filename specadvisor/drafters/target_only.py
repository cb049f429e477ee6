"""Techniques whose drafts cost rows of the target's own pass: lookahead decoding and token recycling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.facts import drafter_facts
from specadvisor.drafters.round import Load, Round
from specadvisor.model.architecture import Architecture
from specadvisor.ranges import FloatArray
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class Lookahead(Drafter):
    """Lookahead decoding (2402.02057): 1 + (W + G) * (N - 1) rows per sequence in every target pass, N - 1 = k."""

    kind = "lookahead"
    needs_target_states = False
    writes_ahead = False

    window: int = 15
    guesses: int = 15

    def draft(self, deployment: Deployment, load: Load) -> Round:
        k = load.k
        return Round(StepTime(), 1.0 + self.verified_drafts(k))

    def verified_drafts(self, k: Any) -> FloatArray:
        return (self.window + self.guesses) * np.asarray(k, dtype=float)


@dataclass(frozen=True, kw_only=True)
class TokenRecycling(Drafter):
    """Token recycling (2408.08696): a static tree read off an adjacency matrix of candidates; ``nodes`` rows are verified."""

    kind = "token_recycling"
    needs_target_states = False
    writes_ahead = False

    nodes: int = 80
    seconds_per_sequence: float = 1.0e-4

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k = load.batch, load.k
        return Round(StepTime(), 1.0 + self.verified_drafts(k), cpu_s=batch * self.seconds_per_sequence)

    def verified_drafts(self, k: Any) -> FloatArray:
        return self.nodes - 1.0 + 0.0 * np.asarray(k, dtype=float)


def build_lookahead(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Lookahead:
    """W = G = 15 as in the paper; at most 7 tokens deep."""
    return Lookahead(name=name, model=model, k_max=7, **dict(drafter_facts("lookahead").shape))


def build_token_recycling(model: Architecture, config: Mapping[str, Any] | None, name: str) -> TokenRecycling:
    """A static tree of 80 nodes on 6 levels, assumed: published runs differ (60 nodes on 8 levels in OWL)."""
    note = "token_recycling: a tree of 80 nodes and 1e-4 s of CPU per sequence and round assumed."
    return TokenRecycling(name=name, model=model, k_max=6, assumptions=(note,), **dict(drafter_facts("token_recycling").shape))
