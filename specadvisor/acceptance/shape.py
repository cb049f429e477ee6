"""How conditional acceptance runs along the draft positions, and each drafter kind's usual run of it."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import resolve
from specadvisor.ranges import FloatArray

# Chosen while looking at the published lists, which hardly tell values apart: with slopes of 0.8, 0.9, 1.0 and rates of
# 0.3 and 0.5 the leave-one-source-out error of AL(7) from AL(3) stays between 2.1% and 2.7%.
SLOPE = 0.9
RATE = 0.5
# Text lookup: the first position carries the chance of a match at all, the rest run on a match that holds.
RATE_LOOKUP = 0.05
_LOGIT_LIMIT = 16.0


def logit(p: float) -> float:
    """log(p / (1 - p)), cut so that 0 and 1 stay finite."""
    p = min(max(p, 1e-7), 1 - 1e-7)
    return math.log(p / (1 - p))


def sigmoid(x: float) -> float:
    """The inverse of ``logit``."""
    return 1.0 / (1.0 + math.exp(-min(max(x, -_LOGIT_LIMIT), _LOGIT_LIMIT)))


@dataclass(frozen=True, slots=True)
class Shape:
    """a_j = limit + (first - limit) * rate^(j-1), times ``cliff`` for every j past the trained ``depth``.

    ``first`` moves with the text and the sampling, ``limit`` is the plateau of later positions. It lies above
    ``first`` for sequential drafters (a round that got this far runs on easy text) and below it for drafters that
    predict a block at once.
    """

    first: float
    limit: float
    rate: float = 0.5
    depth: int | None = None
    cliff: float = 1.0

    def conditional(self, k_max: int) -> FloatArray:
        """a_1..a_k_max."""
        steps = np.arange(k_max)
        a = self.limit + (self.first - self.limit) * np.power(self.rate, steps)
        return np.asarray(a if self.depth is None else np.where(steps >= self.depth, a * self.cliff, a))

    def derivative(self, k_max: int) -> FloatArray:
        """Derivatives of a_1..a_k_max by the logits of ``first`` and ``limit``, shape (k_max, 2)."""
        steps = np.arange(k_max)
        first_share = np.power(self.rate, steps)
        found = np.stack(
            (self.first * (1 - self.first) * first_share, self.limit * (1 - self.limit) * (1 - first_share)), axis=1
        )
        return np.asarray(found if self.depth is None else np.where(steps[:, None] >= self.depth, found * self.cliff, found))

    def survival(self, k_max: int) -> FloatArray:
        """s_1..s_k_max."""
        return np.asarray(np.cumprod(self.conditional(k_max)))


@dataclass(frozen=True, slots=True)
class EasyHard:
    """A round is easy with probability ``share``: s_j = share * easy^j + (1 - share) * hard^j.

    The mixture explains why conditionals rise: rounds that survive j drafts are mostly the easy ones.
    """

    share: float
    easy: float
    hard: float

    def survival(self, k_max: int) -> FloatArray:
        """s_1..s_k_max."""
        j = np.arange(1, k_max + 1)
        return self.share * self.easy**j + (1.0 - self.share) * self.hard**j

    def easy_share_after(self, j: int) -> float:
        """The share of easy rounds among those whose first ``j`` drafts were all accepted."""
        easy = self.share * self.easy**j
        return float(easy / (easy + (1.0 - self.share) * self.hard**j))


@dataclass(frozen=True, slots=True)
class KindShape:
    """A kind's usual shape as a function of its level: logit(limit) = intercept + SLOPE * logit(first).

    ``spread`` is the standard deviation of the intercept between published lists of the kind.
    """

    kind: str
    intercept: float
    spread: float
    rate: float
    depth: int | None
    cliff: float
    lists: int
    sources: int
    basis: str

    def at(self, level: float) -> Shape:
        """The shape whose first position has the logit ``level``."""
        limit = level if self is FLAT else self.intercept + SLOPE * level
        return Shape(sigmoid(level), sigmoid(limit), self.rate, self.depth, self.cliff)

    def solve(self, length: float, k: int) -> Shape:
        """The shape with AL(k) = ``length``."""
        return _solve(self, length, k)


@lru_cache(maxsize=4096)
def _solve(usual: KindShape, length: float, k: int) -> Shape:
    return usual.at(bisect(lambda level: 1.0 + float(usual.at(level).survival(k).sum()), length))


FLAT = KindShape("flat", 0.0, 0.4, RATE, None, 1.0, 0, 0, "one conditional acceptance at every position")


def bisect(increasing: Callable[[float], float], target: float) -> float:
    """x in [-16, 16] with increasing(x) = target, to the last bits; the nearer end if out of reach.

    Regula falsi; an end that stays twice has its distance halved (Illinois), every fourth step halves the bracket.
    """
    low, high = -_LOGIT_LIMIT, _LOGIT_LIMIT
    below, above = increasing(low) - target, increasing(high) - target
    if below >= 0 or above <= 0:
        return low if below >= 0 else high
    last, side = low, 0
    for step in range(1, 200):
        middle = 0.5 * (low + high) if step % 4 == 0 else low - below * (high - low) / (above - below)
        error = increasing(middle) - target
        if error == 0.0 or abs(middle - last) < 1e-14 * max(1.0, abs(middle)):
            break
        if error < 0:
            low, below, above = middle, error, 0.5 * above if side < 0 else above
        else:
            high, above, below = middle, error, 0.5 * below if side > 0 else below
        last, side = middle, -1 if error < 0 else 1
    return middle


@cache
def kind_shapes() -> dict[str, KindShape]:
    """The shipped table of usual shapes by drafter kind (``profiles/acceptance/shapes.csv``)."""
    with (profiles_dir() / "acceptance" / "shapes.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            row["kind"]: KindShape(
                row["kind"], float(row["intercept"]), float(row["spread"]), float(row["rate"]),
                int(row["depth"]) if row["depth"] else None, float(row["cliff"]),
                int(row["lists"]), int(row["sources"]), row["basis"],
            )
            for row in rows
        }  # fmt: skip


def kind_shape(kind: str | None) -> KindShape:
    """The usual shape of ``kind``; flat for None."""
    if kind is None:
        return FLAT
    kind = resolve("drafter", kind)
    try:
        return kind_shapes()[kind]
    except KeyError:
        raise InputError("drafter", kind, ", ".join(kind_shapes()), "No acceptance shape is known for it.") from None
