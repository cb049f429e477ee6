"""Drafting while the target verifies: separate GPUs, guessed outcomes, pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.drafters.modifiers.adaptive import flat_survival, per_k
from specadvisor.drafters.modifiers.base import Modifier, whole_number
from specadvisor.drafters.round import Load
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray
from specadvisor.step.target import target_step
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.drafters.round import Round
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True)
class HiddenDraft(Modifier):
    """The drafter runs on GPUs of its own and drafts for guessed outcomes while the target verifies::

        round = max(verify, t_pre) + (1 - P(hit)) * draft

    t_pre decodes ``branches`` continuations per sequence; a batch waits as soon as one sequence missed: P(hit) = p ** batch.
    Needs a drafter that does not wait for the target's hidden states.
    """

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """Only drafters without target states can run ahead of the target."""
        if drafter.needs_target_states:
            return f"{self.id}: {drafter.kind} reads the target's hidden states, so it cannot draft before they exist"
        if not drafter.layers:
            return f"{self.id}: {drafter.kind} has no drafting time to hide"
        return None

    def branches(self, k: FloatArray) -> FloatArray:
        """Continuations per sequence that are drafted ahead."""
        raise NotImplementedError

    def hit(self, load: Load, curve: FloatArray, temperature: float) -> FloatArray:
        """P(one sequence's outcome was drafted for)."""
        raise NotImplementedError

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        curve = flat_survival(load.k, load.accepted) if survival is None else np.asarray(survival, dtype=float)
        ahead = drafter.draft(drafter.placed(deployment), replace(load, batch=load.batch * self.branches(load.k))).draft.total_s
        verify = target_step(deployment, load.batch, current.verified_tokens, load.context, host=False).total_s
        miss = 1.0 - self.hit(load, curve, drafter.temperature) ** load.batch
        waiting = StepTime({"host": np.maximum(0.0, ahead - verify)})
        return replace(current, draft=current.draft.scaled(miss) + waiting, extra_gpus=drafter.draft_tp or 1)


@dataclass(frozen=True)
class SpeculativeSpeculation(HiddenDraft):
    """Speculative speculative decoding (2603.03251, Saguaro): the k + 1 outcomes of a round times F guesses of the bonus token.

    Published: 70B on 4 GPUs with a 1B on one more, k = 7, F = 3: hit up to 0.9 at batch 1 and T = 0; up to 96% of the rounds
    fall back at batch 16, which 0.82 ** 16 explains: that is taken for T = 1, linear in between.
    """

    id = "ssd"
    excludes = "hiding"
    takes = "P(hit) of one sequence, 0.9 at temperature 0 to 0.82 at 1 unless given"
    optional = True

    def check(self, drafter: Drafter) -> None:
        if not 0.0 <= self.probability(drafter.temperature) <= 1.0:
            raise InputError("ssd", self.value, "a probability from 0 to 1")

    def probability(self, temperature: float) -> float:
        """P(hit) as given, else the published one at this sampling temperature."""
        if not self.value:
            greedy, sampled = float(self.facts.shape["hit"]), float(self.facts.shape["hit_sampled"])
            return greedy + (sampled - greedy) * min(1.0, max(0.0, temperature))
        try:
            return float(self.value)
        except ValueError:
            raise InputError("ssd", self.value, "a probability from 0 to 1") from None

    def branches(self, k: FloatArray) -> FloatArray:
        return (k + 1.0) * float(self.facts.shape["fanout"])

    def hit(self, load: Load, curve: FloatArray, temperature: float) -> FloatArray:
        return np.asarray(self.probability(temperature))


@dataclass(frozen=True)
class Pearl(HiddenDraft):
    """PEARL (2408.11850): drafts on after its own last token while the target verifies; a hit when every draft is accepted."""

    id = "pearl"
    excludes = "hiding"

    def branches(self, k: FloatArray) -> FloatArray:
        return np.ones_like(k)

    def hit(self, load: Load, curve: FloatArray, temperature: float) -> FloatArray:
        return per_k(load, lambda k: float(curve[min(k, len(curve)) - 1]))


@dataclass(frozen=True)
class SpeculativePipeline(Modifier):
    """Speculative pipeline decoding (2605.30852): the target is cut into n stages; a token enters at every stage tick.

    An accepted run of AL tokens takes one full pass to fill and AL - 1 ticks of 1/n pass: round = pass * (1 + (AL - 1) / n).
    Drafting fits into a tick or lengthens it. Published at n = 8, batch 1: 2.99-3.04x against EAGLE-3's 2.10-2.94x, on n + 1
    ranks: each stage needs what one replica runs on, the drafter one GPU more.
    """

    id = "speculative-pipeline"
    excludes = "hiding"
    takes = "stages, 8 unless given"
    optional = True

    @property
    def stages(self) -> int:
        return int(self.value or self.facts.shape["stages"])

    def check(self, drafter: Drafter) -> None:
        if self.value and not 2 <= (whole_number(self.value) or 0) <= 64:
            raise InputError("speculative-pipeline", self.value, "a number of stages, 2 to 64")
        if drafter.tree:
            raise InputError("speculative-pipeline", str(drafter.tree), "a chain")

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        step = target_step(deployment, load.batch, 1.0, load.context, host=False)
        tick = step.total_s / self.stages
        per_token = current.draft.total_s / np.maximum(load.k, 1.0)
        slower = StepTime({"host": np.maximum(0.0, per_token - tick) * load.accepted})
        return replace(
            current,
            draft=step.scaled((load.accepted - 1.0) / self.stages) + slower,
            verified_tokens=np.ones_like(load.k),
            extra_gpus=(self.stages - 1) * deployment.ranks + 1,
        )
