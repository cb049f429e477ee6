"""A small Levenberg-Marquardt solver: a handful of parameters, numpy only, fast to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specadvisor.ranges import FloatArray

_STEP = 1e-5


@dataclass(frozen=True, slots=True)
class Fit:
    """The minimum of sum(residuals^2) / 2, and the covariance of ``x`` if residuals are in standard deviations."""

    x: FloatArray
    covariance: FloatArray
    cost: float


def minimise(residuals: Callable[[FloatArray], FloatArray], start: FloatArray, iterations: int = 60) -> Fit:
    """Least squares from ``start``, with a numeric Jacobian."""
    x, damping = np.array(start, dtype=float), 1e-3
    r = residuals(x)
    jacobian = _jacobian(residuals, x, r)
    for _ in range(iterations):
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ r
        step = np.linalg.solve(normal + damping * (np.diag(np.diag(normal)) + 1e-12 * np.eye(x.size)), -gradient)
        trial = residuals(x + step)
        if trial @ trial < r @ r:
            small = np.max(np.abs(step)) < 1e-9
            x, r, damping = x + step, trial, damping / 5
            jacobian = _jacobian(residuals, x, r)
            if small:
                break
        elif damping > 1e8:
            break
        else:
            damping *= 5
    return Fit(x, np.asarray(np.linalg.pinv(jacobian.T @ jacobian), dtype=float), 0.5 * float(r @ r))


def _jacobian(residuals: Callable[[FloatArray], FloatArray], x: FloatArray, r: FloatArray) -> FloatArray:
    columns = [(residuals(x + _STEP * unit) - r) / _STEP for unit in np.eye(x.size)]
    return np.stack(columns, axis=1)
