"""What the caveats look at: one drafter at the loads asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.advise.recommendation import Curve, Load
from specadvisor.model.architecture import Attention, Recurrent
from specadvisor.ranges import FloatArray
from specadvisor.step import Deployment

if TYPE_CHECKING:
    from specadvisor.drafters import Drafter


@dataclass(frozen=True)
class Case:
    """One drafter at the loads asked for."""

    deployment: Deployment
    load: Load
    curve: Curve

    @property
    def drafter(self) -> Drafter:
        return self.curve.drafter

    @property
    def k(self) -> int:
        """Largest k that is chosen at any load, at least 1."""
        return max(1, *(c.k for c in self.curve.choices))

    @property
    def recurrent(self) -> bool:
        return any(isinstance(la.mixer, Recurrent) for la in self.deployment.model.layers)

    @property
    def attention(self) -> list[Attention]:
        return [la.mixer for la in self.deployment.model.layers if isinstance(la.mixer, Attention)]

    def at_choice(self, values: FloatArray) -> FloatArray:
        """``values`` of the grid (k, load) at the k chosen at each load, k = 1 where that is 0."""
        evaluation = self.curve.evaluation
        shape = np.broadcast_shapes(evaluation.k.shape, evaluation.concurrency.shape)
        rows = np.searchsorted(evaluation.k.ravel(), [max(c.k, 1) for c in self.curve.choices])
        return np.asarray(np.broadcast_to(values, shape)[rows, np.arange(shape[1])])
