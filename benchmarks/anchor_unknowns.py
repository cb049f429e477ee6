"""Numbers that a source does not print: one a source, fitted on one of its series and tested on the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from anchor_points import Point, read, speedup_points

CANDIDATES = {"context": np.geomspace(128.0, 8192.0, 25), "request_s": np.linspace(0.0, 2e-4, 41)}


@dataclass(frozen=True)
class Unknown:
    """``value`` of ``quantity`` (``context`` in keys, ``request_s``) that fits ``series`` best, and all points with it."""

    setting: str
    quantity: str
    series: str
    why: str
    value: float
    points: Sequence[Point]

    @property
    def tested(self) -> list[Point]:
        """The points that the fit did not see."""
        return [p for p in self.points if p.series != self.series]

    def __str__(self) -> str:
        if self.quantity == "context":
            return f"context {self.value:.0f} keys"
        return f"{1e6 * self.value:.0f} us a round for every running request"


def unknowns() -> list[Unknown]:
    """Every row of ``unknowns.csv``, fitted."""
    return [fit(**row) for row in read("unknowns.csv")]


def fit(setting: str, quantity: str, series: str, why: str) -> Unknown:
    """The candidate with the least squares of the logarithm of predicted over measured speed-ups of ``series``."""
    tries = [(float(value), _points(setting, quantity, float(value))) for value in CANDIDATES[quantity]]
    value, points = min(tries, key=lambda pair: _loss([p for p in pair[1] if p.series == series]))
    return Unknown(setting, quantity, series, why, value, points)


def _points(setting: str, quantity: str, value: float) -> list[Point]:
    if quantity == "context":
        return speedup_points(value, only=setting)
    return [_slower(p, value * p.load) for p in speedup_points(only=setting)]


def _slower(point: Point, seconds: float) -> Point:
    round_s = point.round_s + seconds
    return replace(point, predicted=point.predicted * point.round_s / round_s, round_s=round_s)


def _loss(points: Sequence[Point]) -> float:
    return float(np.mean([np.log(p.predicted / p.measured) ** 2 for p in points]))
