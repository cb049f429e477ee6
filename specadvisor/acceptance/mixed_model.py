"""A linear mixed model of levels: effects drawn around zero, one set of columns per group (see ``levels.py``).

Best linear unbiased prediction (Henderson's equations); sizes of the effects by expectation maximisation; how far new
sources really lie from their predictions, by leaving each source out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specadvisor.acceptance.catalogue import Row
from specadvisor.ranges import Z80, FloatArray

Groups = Mapping[str, Callable[[Row], str | None]]
# Sources that count as evidence for the overall factor before a kind's own outweigh it.
_OWN_SOURCES = 5.0


@dataclass(frozen=True, slots=True)
class Effects:
    """Predicted effects by column, their covariance, and the standard deviations by group that they were drawn with."""

    mean: FloatArray
    covariance: FloatArray
    sd: dict[str, float]


class MixedModel:
    """``levels`` of ``rows`` as a sum of the effects of ``groups``; sizes in ``fixed_sd`` are not estimated."""

    def __init__(self, rows: Sequence[Row], levels: FloatArray, groups: Groups, fixed_sd: Mapping[str, float]) -> None:
        self.rows, self.fixed_sd = rows, fixed_sd
        self.columns: dict[str, dict[str, int]] = {}
        width = 0
        for group, name in groups.items():
            found = sorted({label for row in rows if (label := name(row)) is not None})
            self.columns[group] = {label: width + i for i, label in enumerate(found)}
            width += len(found)
        self.design = np.zeros((len(rows), width))
        for i, row in enumerate(rows):
            labels = ((group, name(row)) for group, name in groups.items())
            self.design[i, [self.columns[group][label] for group, label in labels if label is not None]] = 1.0
        self.center = float(np.mean(levels))
        self.values = levels - self.center
        self.gram, self.target = self.design.T @ self.design, self.design.T @ self.values

    def solve(self, sd: Mapping[str, float]) -> Effects:
        """Effects drawn with ``sd``."""
        precision = np.concatenate(
            [np.full(len(columns), max(sd[group], 1e-3) ** -2) for group, columns in self.columns.items()]
        )
        covariance = np.asarray(np.linalg.inv(self.gram / sd["rest"] ** 2 + np.diag(precision)), dtype=float)
        return Effects(covariance @ self.target / sd["rest"] ** 2, covariance, dict(sd))

    def without(self, effects: Effects, left_out: FloatArray) -> Effects:
        """``effects`` as they are without the rows ``left_out`` (True): the covariance by Woodbury's identity."""
        left, noise = self.design[left_out], effects.sd["rest"] ** 2
        moved = left @ effects.covariance
        inner = noise * np.eye(len(left)) - moved @ left.T
        covariance = effects.covariance + moved.T @ np.linalg.solve(inner, moved)
        mean = covariance @ (self.target - left.T @ self.values[left_out]) / noise
        return Effects(mean, covariance, effects.sd)

    def estimate(self, rounds: int = 60) -> Effects:
        """Effects with sizes by expectation maximisation."""
        sd = dict.fromkeys((*self.columns, "rest"), 0.3) | dict(self.fixed_sd)
        effects = self.solve(sd)
        for _ in range(rounds):
            residual = self.values - self.design @ effects.mean
            noise = residual @ residual + np.sum(self.gram * effects.covariance)
            sd["rest"] = float(np.sqrt(noise / len(self.rows)))
            for group, columns in self.columns.items():
                span = list(columns.values())
                if group not in self.fixed_sd and span:
                    sd[group] = float(np.sqrt(np.mean(effects.mean[span] ** 2 + np.diag(effects.covariance)[span])))
            effects = self.solve(sd)
        return effects

    def predict(self, effects: Effects, wanted: Mapping[str, str], new: float) -> tuple[float, float]:
        """(mean, standard deviation) of the sum of the effects ``wanted`` by group, with the variance ``new`` of others."""
        present = [self.columns[group][name] for group, name in wanted.items() if name in self.columns[group]]
        unseen = sum(effects.sd[group] ** 2 for group, name in wanted.items() if name not in self.columns[group])
        variance = float(effects.covariance[np.ix_(present, present)].sum()) + unseen + new
        return self.center + float(effects.mean[present].sum()), float(np.sqrt(variance))

    def scatter(self, effects: Effects, wanted: Callable[[Row], Mapping[str, str]], new: float) -> dict[str, float]:
        """By kind, the factor by which stated deviations must grow to hold 80% of the rows of sources left out.

        Every source has one vote; kinds of few sources are drawn to the factor of ``all``. At least 1.
        """
        away: dict[str, list[tuple[float, float]]] = {}
        sources = np.array([row.source for row in self.rows])
        for source in np.unique(sources):
            own = np.flatnonzero(sources == source).tolist()
            others = self.without(effects, sources == source)
            votes = Counter(self.rows[i].kind for i in own)
            for i in own:
                row = self.rows[i]
                mean, spread = self.predict(others, wanted(row), new)
                distance = abs(float(self.values[i]) + self.center - mean) / spread
                away.setdefault(row.kind, []).append((distance, 1.0 / votes[row.kind]))
        everything = _quantile([item for found in away.values() for item in found])
        factors = {"all": max(1.0, everything)}
        for name, found in away.items():
            n = sum(vote for _, vote in found)
            drawn = (n * _quantile(found) ** 2 + _OWN_SOURCES * everything**2) / (n + _OWN_SOURCES)
            factors[name] = max(1.0, float(np.sqrt(drawn)))
        return factors


def _quantile(away: Sequence[tuple[float, float]]) -> float:
    """The weighted 80% quantile of standardised distances over that of a normal variable."""
    distance, vote = (np.array(column) for column in zip(*sorted(away), strict=True))
    return float(np.interp(0.8, (np.cumsum(vote) - 0.5 * vote) / vote.sum(), distance)) / Z80
