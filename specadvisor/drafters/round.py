"""What one speculation round is asked for, and what it costs beside the target's pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from specadvisor.ranges import FloatArray
from specadvisor.step.time import StepTime


@dataclass(frozen=True, slots=True)
class Load:
    """What one round is asked for; the arrays broadcast. ``accepted``: tokens the last round emitted, bonus included."""

    batch: FloatArray
    k: FloatArray
    context: FloatArray
    accepted: FloatArray


@dataclass(frozen=True, slots=True)
class Round:
    """One speculation round without the target's forward pass.

    ``draft``: exposed drafting time (kernels, launches). ``verified_tokens``: query tokens per sequence in the target's
    pass. ``cpu_s``: exposed drafting on the CPU. ``round_overhead_s``: the engine's own bookkeeping per round. A round
    takes ``target_step(verified_tokens) + draft + overhead``. ``acceptance_length`` is set where the round itself decides
    it (adaptive verification), else None: AL(k) of the survival curve holds. ``extra_gpus`` run only for drafting.
    """

    draft: StepTime
    verified_tokens: FloatArray
    cpu_s: FloatArray = field(default_factory=lambda: np.zeros(()))
    round_overhead_s: FloatArray = field(default_factory=lambda: np.zeros(()))
    acceptance_length: FloatArray | None = None
    extra_gpus: int = 0

    @property
    def overhead(self) -> StepTime:
        """Host and CPU time of the round, as a component."""
        return StepTime({"host": np.asarray(self.cpu_s + self.round_overhead_s, dtype=float)})
