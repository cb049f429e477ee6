"""Scheduling: host time that the GPU no longer waits for, and draft lengths that follow the load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.drafters.modifiers.base import Modifier
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.drafters.round import Load, Round
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True)
class OverlapScheduling(Modifier):
    """SGLang Spec V2, vLLM async scheduling, one-graph runtimes: the round's own host time is hidden behind the GPU.

    DFlash on Qwen3-8B, B200, concurrency 32: 11.4 -> 15.3 ktok/s. The host time of the target's pass is the deployment's
    ``async_scheduling``.
    """

    id = "overlap-scheduling"

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """SGLang's overlap path drafts chains only; lookup drafters need the tokens on the CPU first."""
        if drafter.tree and serving.id == "sglang":
            return "sglang's overlap path needs top-k 1"
        if drafter.kind in ("ngram", "suffix", "rest"):
            return f"{drafter.kind} matches accepted tokens on the CPU, so the host is part of the round"
        return None

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        gpu = current.draft.total_s
        hidden = np.maximum(0.0, current.round_overhead_s - gpu)
        return replace(current, round_overhead_s=np.asarray(hidden, dtype=float))


@dataclass(frozen=True)
class DynamicLength(Modifier):
    """TurboSpec / SmartSpec (2406.14066), SpecServe, SGLang adaptive steps, vLLM per-batch-size k: k follows the load.

    Nothing is added to a round: evaluating AL(k) / round(k, batch) for every batch and keeping the best k is the schedule.
    Measured: as good as the best static k, and it recovers a mistuned one.
    """

    id = "dynamic-length"
