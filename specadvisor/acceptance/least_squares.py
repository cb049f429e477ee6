"""A small Levenberg-Marquardt solver: a handful of parameters, numpy only, fast to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specadvisor.ranges import FloatArray

_STEP = 1e-5
_SMALL = 1e-5


@dataclass(frozen=True, slots=True)
class Fit:
    """The minimum of sum(residuals^2) / 2, and the covariance of ``x`` if residuals are in standard deviations."""

    x: FloatArray
    covariance: FloatArray
    cost: float


def minimise(
    residuals: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    derivative: Callable[[FloatArray], FloatArray] | None = None,
    iterations: int = 60,
) -> Fit:
    """Least squares from ``start``; without ``derivative`` (the Jacobian, residuals x parameters) with a numeric one."""
    x, damping = np.array(start, dtype=float), 1e-3
    r = residuals(x)
    jacobian = derivative(x) if derivative else _jacobian(residuals, x, r)
    for _ in range(iterations):
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ r
        step = np.linalg.solve(normal + np.diag(damping * (normal.diagonal() + 1e-12)), -gradient)
        trial = residuals(x + step)
        small = np.max(np.abs(step)) < _SMALL
        if trial @ trial < r @ r:
            x, r, damping = x + step, trial, damping / 5
            jacobian = derivative(x) if derivative else _jacobian(residuals, x, r)
        else:
            damping *= 5
        if small or damping > 1e8:
            break
    return Fit(x, np.asarray(np.linalg.pinv(jacobian.T @ jacobian), dtype=float), 0.5 * float(r @ r))


def _jacobian(residuals: Callable[[FloatArray], FloatArray], x: FloatArray, r: FloatArray) -> FloatArray:
    columns = [(residuals(x + _STEP * unit) - r) / _STEP for unit in np.eye(x.size)]
    return np.stack(columns, axis=1)
