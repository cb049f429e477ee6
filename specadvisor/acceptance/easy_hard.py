"""Fit the mixture of easy and hard rounds that explains conditionals rising with depth."""

from __future__ import annotations

import numpy as np

from specadvisor.acceptance.least_squares import minimise
from specadvisor.acceptance.shape import EasyHard, logit, sigmoid
from specadvisor.ranges import FloatArray

# The easy component of published rising lists accepts near this; the fit starts there and is drawn to it a little.
EASY = 0.9
_DRAW = 0.02
# Conditionals that rise by less than this over two positions are as good as flat.
_RISE = 0.02


def fit_easy_hard(s: FloatArray) -> EasyHard | None:
    """The mixture through s_1..s_n by least squares, None where conditionals do not rise (one component is enough)."""
    if s.size < 3 or s[2] <= 0 or s[2] / s[1] - s[0] < _RISE:
        return None

    def mixture(x: FloatArray) -> EasyHard:
        easy = sigmoid(x[1])
        return EasyHard(sigmoid(x[0]), easy, easy * sigmoid(x[2]))

    start = np.array([0.0, logit(EASY), 0.0])

    def residuals(x: FloatArray) -> FloatArray:
        return np.concatenate((mixture(x).survival(s.size) - s, _DRAW * (x - start)))

    return mixture(minimise(residuals, start).x)
