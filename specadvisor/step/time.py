"""Seconds of one forward pass, by component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from specadvisor.ranges import FloatArray

COMPONENTS = ("gemm", "attention", "moe", "recurrent", "collective", "head", "sampling", "elementwise", "host")


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds by component; the arrays broadcast against each other.

    Each array keeps the smallest shape that holds it (a GEMM does not depend on the context), so sums are only
    expanded to the whole grid in ``total_s``.
    """

    components: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def total_s(self) -> FloatArray:
        """Sum of all components, expanded to their common shape."""
        total = np.zeros(())
        for seconds in sorted(self.components.values(), key=np.ndim):
            total = total + seconds
        return np.asarray(total, dtype=float)

    def __getitem__(self, component: str) -> FloatArray:
        """Seconds of ``component``; 0 where the pass has none."""
        return self.components.get(component, np.zeros(()))

    def __add__(self, other: StepTime) -> StepTime:
        """Two passes one after the other."""
        merged = dict(self.components)
        for name, seconds in other.components.items():
            merged[name] = merged[name] + seconds if name in merged else seconds
        return StepTime(merged)

    def scaled(self, factor: FloatArray | float) -> StepTime:
        """The same pass ``factor`` times (an array broadcasts over the grid)."""
        return StepTime({name: seconds * np.asarray(factor, dtype=float) for name, seconds in self.components.items()})

    def plus(self, component: str, seconds: FloatArray | float) -> StepTime:
        """This pass with ``seconds`` more of ``component``."""
        return self + StepTime({component: np.asarray(seconds, dtype=float)})
