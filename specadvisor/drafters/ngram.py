"""Drafting without a model: n-gram lookup, suffix trees, datastores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.facts import drafter_facts, engine_facts
from specadvisor.drafters.round import Load, Round
from specadvisor.model.architecture import Architecture
from specadvisor.ranges import FloatArray
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class Ngram(Drafter):
    """Prompt lookup: copy the k tokens that followed the last match. No weights, no cache.

    A step without a match drafts nothing, so the mean number of drafts is P(hit) * k: where P(hit) is stated (``hit``; 0: it
    is not), that; else ``precision``, accepted over drafted tokens given a hit (published conditionals .8-.97 on copying
    loads, lower elsewhere), makes it min(k, (AL - 1) / precision). Engines that verify k + 1 rows of every sequence pay for
    the misses, too. CPU time: about 1e-5 s per sequence.
    """

    kind = "ngram"
    lookup = True
    needs_target_states = False
    writes_ahead = False

    seconds_per_sequence: float = 1.0e-5
    seconds_per_token: float = 0.0
    precision: float = 0.6
    hit: float = 0.0

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k, accepted = load.batch, load.k, load.accepted
        proposed = self.proposed(k, accepted)
        cpu = batch * (self.seconds_per_sequence + self.seconds_per_token * proposed)
        padded = deployment.serving.id in engine_facts()["padded_lookup"]["engines"]
        return Round(StepTime(), 1.0 + (self.verified_drafts(k) if padded else proposed), cpu_s=cpu)

    def proposed(self, k: FloatArray, accepted: FloatArray) -> FloatArray:
        """Mean drafted tokens that are verified: k after a match where the share of matches is known."""
        return self.hit * k if self.hit else np.minimum(k, (accepted - 1.0) / self.precision)


class Suffix(Ngram):
    """Suffix decoding (2411.04975): two suffix trees; the draft is as long as the match is strong, so few tokens are wasted.

    ``precision``: accepted / drafted tokens that the length rule holds (``min_token_prob`` 0.1 of the engine plugin).
    """

    kind = "suffix"

    def proposed(self, k: FloatArray, accepted: FloatArray) -> FloatArray:
        """No longer than the match is strong."""
        by_length = np.minimum(k, (accepted - 1.0) / self.precision)
        return np.minimum(self.hit * k, by_length) if self.hit else by_length


class Rest(Ngram):
    """REST (2311.08252): up to 64 nodes of a trie retrieved from a datastore of 0.5-27 GB in CPU memory or on disk."""

    kind = "rest"

    nodes: ClassVar[int] = 64

    def proposed(self, k: FloatArray, accepted: FloatArray) -> FloatArray:
        return self.verified_drafts(k) + accepted * 0.0

    def verified_drafts(self, k: Any) -> FloatArray:
        return self.nodes - 1.0 + 0.0 * np.asarray(k, dtype=float)


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Ngram:
    """No sizes to read: a config is ignored."""
    return Ngram(name=name, model=model, **_numbers("ngram"))


def build_suffix(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Suffix:
    """No sizes to read: a config is ignored."""
    numbers = _numbers("suffix")
    note = f"suffix: {numbers['precision']:.0%} of the drafted tokens assumed accepted (the length rule stops weak matches)."
    return Suffix(name=name, model=model, assumptions=(note,), **numbers)


def build_rest(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Rest:
    """No sizes to read: a config is ignored."""
    note = "rest: 1e-3 s of lookup per sequence and round assumed; it depends on where the datastore lies."
    return Rest(name=name, model=model, assumptions=(note,), **_numbers("rest"))


def _numbers(kind: str) -> dict[str, Any]:
    return dict(drafter_facts(kind).shape)
