"""One type for an uncertain number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Half-width of an 80% interval in standard deviations, and the standard deviation of a normal variable
# in units of its median absolute value: together they turn a published "median error" into an interval.
Z80 = 1.2816
SIGMA_PER_MEDIAN_ERROR = 1.4826


@dataclass(frozen=True, slots=True)
class Range:
    """About 80% of the time the truth lies between ``low`` and ``high``; floats or arrays of one shape."""

    low: Any
    mid: Any
    high: Any

    @classmethod
    def log_normal(cls, mid: Any, sigma: Any) -> Range:
        """The 80% interval of a quantity whose logarithm has standard deviation ``sigma``."""
        spread = np.exp(Z80 * np.asarray(sigma))
        return cls(mid / spread, mid, mid * spread)
