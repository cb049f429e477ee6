"""The survival curve of a drafter: how likely the first j draft tokens are all accepted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.errors import InputError
from specadvisor.ranges import Z80, FloatArray, Range

# Log standard deviation of AL - 1 that a reader should assume where a length was measured at one k and is read at
# another: this much per unit of |log((k + 1) / (k_measured + 1))| (benchmarks/acceptance_model.py prints the errors).
SIGMA_PER_LOG_K = 0.12
# The k at which a prior's sigma and factors on AL - 1 are stated.
REFERENCE_K = 3
_SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Survival:
    """``s[j-1]`` is the probability that the first j draft tokens of a round are all accepted.

    ``sigma`` is the log standard deviation of AL - 1 (see ``sigma_at``); ``known`` says whether the user measured it (a
    catalogue prior is not known). ``measured`` is the range of k whose AL(k) was measured; away from it the range widens.
    ``tail`` is the conditional acceptance assumed beyond the last entry of ``s``. Where rounds were counted, ``rounds`` is
    their number and ``counted`` the shares s_1, s_2, ... as counted: the interval of a length holds the counted one, and
    has a width even if every draft was accepted, or none. ``hit``: share of rounds in which a text lookup found a match,
    where it is known; ``s`` is over all rounds (``lookup.py``).
    """

    s: FloatArray
    sigma: float = 0.05
    source: str = ""
    known: bool = False
    measured: tuple[int, int] | None = None
    tail: float | None = None
    notes: tuple[str, ...] = ()
    rounds: float | None = None
    counted: FloatArray | None = None
    hit: float | None = None

    def __post_init__(self) -> None:
        s = np.array(self.s, dtype=float)
        if s.ndim != 1 or not s.size:
            raise InputError("survival", s.tolist(), "a list with at least one probability")
        lowest, highest = float(s.min()), float(s.max())
        if not (lowest >= -_SLACK and highest <= 1 + _SLACK):
            raise InputError("survival", s.tolist(), "probabilities between 0 and 1")
        rise = s[1:] - s[:-1]
        steepest = float(rise.max()) if rise.size else 0.0
        if steepest > _SLACK:
            j = int(np.argmax(rise > _SLACK)) + 2
            raise InputError(
                "survival", s.tolist(), "a list that never increases",
                f"Position {j} is above position {j - 1}: a draft is only accepted if the one before it was. "
                "If these are conditional rates, pass them as conditional.",
            )  # fmt: skip
        if not (np.isfinite(self.sigma) and self.sigma >= 0):
            raise InputError("sigma", self.sigma, "a number of at least 0")
        if lowest < 0 or highest > 1 or steepest > 0:
            s = np.minimum.accumulate(np.clip(s, 0.0, 1.0))
        s.flags.writeable = False
        object.__setattr__(self, "s", s)
        if self.tail is None:
            before = float(s[-2]) if s.size > 1 else 1.0
            object.__setattr__(self, "tail", float(s[-1]) / before if before > 0 else 0.0)
        elif not 0 <= self.tail <= 1:
            raise InputError("tail", self.tail, "a probability between 0 and 1")

    @property
    def k_max(self) -> int:
        """The number of positions with an entry of their own."""
        return int(self.s.size)

    @property
    def conditional(self) -> FloatArray:
        """a_j = s_j / s_(j-1): acceptance of position j given that all before it were accepted (0 where s_(j-1) is 0)."""
        before = np.concatenate(([1.0], self.s[:-1]))
        return np.divide(self.s, before, out=np.zeros_like(self.s), where=before > 0)

    def extended(self, k_max: int) -> FloatArray:
        """s_1..s_k_max; entries beyond the curve's own follow the geometric ``tail``."""
        more = k_max - self.k_max
        if more <= 0:
            return self.s[:k_max]
        assert self.tail is not None
        return np.concatenate((self.s, self.s[-1] * self.tail ** np.arange(1, more + 1)))

    def acceptance_length(self, k: ArrayLike) -> Any:
        """AL(k) = 1 + s_1 + ... + s_k, tokens per round with the bonus token; any shape of whole k >= 0."""
        index = _whole(k)
        table = np.concatenate(([1.0], 1.0 + np.cumsum(self.extended(int(index.max(initial=0))))))
        return table[index]

    def rate(self, k: ArrayLike) -> Any:
        """Accepted over drafted tokens at k, (AL(k) - 1) / k; 0 at k = 0."""
        index = _whole(k)
        return (self.acceptance_length(index) - 1.0) / np.maximum(index, 1)

    def sigma_at(self, k: ArrayLike) -> Any:
        """Log standard deviation of AL(k) - 1.

        A measurement is sure at the k it covers and widens outside. A prior is unsure about its level: one step of the
        level moves log(AL - 1) by about 1 - rate, so ``sigma``, stated at ``REFERENCE_K``, scales with that.
        """
        index = _whole(k).astype(float)
        if self.measured is None:
            reference = max(1.0 - float(self.rate(REFERENCE_K)), 1e-3)
            return self.sigma * (1.0 - self.rate(index)) / reference
        low, high = self.measured
        away = np.abs(np.log((index + 1.0) / (np.clip(index, low, high) + 1.0)))
        return np.hypot(self.sigma, SIGMA_PER_LOG_K * away)

    def range(self, k: ArrayLike) -> Range:
        """AL(k) with its 80% interval: normal in the logit of the rate (AL - 1) / k, so within 1 and k + 1.

        The ends belong to one curve each: with k, neither end falls, and neither rate rises. Half a draft accepted and
        half rejected are the most extreme counts that the interval starts from.
        """
        index = _whole(k)
        ks = np.arange(max(int(index.max(initial=0)), self.measured[1] if self.measured else 0) + 1)
        rate = np.clip(self.rate(ks), 0.0, 1.0)
        if self.rounds is not None:
            least = 0.5 / (self.rounds * np.maximum(ks, 1) + 1.0)
            rate = np.clip(rate, least, 1.0 - least)
        odds = np.divide(rate, 1.0 - rate, out=np.full(ks.shape, np.inf), where=rate < 1)
        logit_sigma = np.divide(self.sigma_at(ks), 1.0 - rate, out=np.zeros(ks.shape), where=rate < 1)
        spread = np.exp(np.minimum(Z80 * logit_sigma, 300.0))
        low, high = (
            np.divide(end, 1.0 + end, out=np.ones(ks.shape), where=np.isfinite(end)) for end in (odds / spread, odds * spread)
        )
        length = self.acceptance_length(ks)
        low_length, high_length = _one_curve(ks, low, high)
        seen = self._counted_lengths(length)
        low_length = np.minimum(low_length, np.minimum(length, seen))
        high_length = np.maximum(high_length, np.maximum(length, seen))
        return Range(low_length[index], length[index], high_length[index])

    def _counted_lengths(self, length: FloatArray) -> FloatArray:
        """AL as counted at k = 0, 1, ..., ``length`` where it was not.

        A total tells of its own k alone, unless no draft was accepted or all were; where none was, none is later.
        """
        seen = length.copy()
        if self.counted is None:
            return seen
        one_length = self.measured is not None and 0 < self.counted[-1] <= self.counted[0] < 1
        first = self.measured[0] if self.measured is not None and one_length else 1
        lengths = 1.0 + np.cumsum(self.counted)
        if self.counted[-1] == 0:
            lengths = np.concatenate((lengths, np.full(length.size, lengths[-1])))
        seen[first : lengths.size + 1] = lengths[first - 1 : length.size - 1]
        return seen

    def beyond(self, k: int) -> str:
        """What was assumed about positions up to ``k`` that the curve does not list; empty if nothing was."""
        if k <= self.k_max:
            return ""
        return f"positions {self.k_max + 1} to {k} are extended with a conditional acceptance of {self.tail:.2f}"

    def length_pmf(self, k: int) -> FloatArray:
        """P(exactly j drafts accepted), j = 0..k, when k are drafted."""
        s = np.concatenate(([1.0], self.extended(k), [0.0]))
        return s[:-1] - s[1:]

    def length_variance(self, k: int) -> float:
        """Variance of the accepted drafts of one round: sum (2j - 1) s_j - (sum s_j)^2."""
        s = self.extended(k)
        return float(np.sum((2.0 * np.arange(1, s.size + 1) - 1.0) * s) - np.sum(s) ** 2)

    def with_notes(self, *notes: str) -> Survival:
        """The same curve with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON; ``from_dict`` reads it back."""
        return {
            "s": self.s.tolist(), "sigma": self.sigma, "source": self.source, "known": self.known,
            "measured": list(self.measured) if self.measured else None, "tail": self.tail, "notes": list(self.notes),
            "rounds": self.rounds, "counted": None if self.counted is None else np.asarray(self.counted).tolist(),
            "hit": self.hit,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Survival:
        """The curve ``to_dict`` wrote."""
        measured, counted = data.get("measured"), data.get("counted")
        return cls(
            np.asarray(data["s"], dtype=float), float(data["sigma"]), str(data["source"]), bool(data["known"]),
            (int(measured[0]), int(measured[1])) if measured else None, float(data["tail"]), tuple(data.get("notes", ())),
            data.get("rounds"), None if counted is None else np.asarray(counted, dtype=float), data.get("hit"),
        )  # fmt: skip


def _one_curve(ks: Any, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lengths of the ends of an interval, from their rates at k = 0, 1, ...: each as tight as the others make it.

    AL(j) - 1 is at most AL(k) - 1 and at least j / k of it for j < k, whatever the curve.
    """
    low = np.maximum.accumulate(low[::-1])[::-1]
    high = np.minimum.accumulate(np.concatenate(([1.0], high[1:])))
    low_length = np.maximum.accumulate(1.0 + ks * low)
    high_length = np.minimum.accumulate((1.0 + ks * high)[::-1])[::-1]
    return low_length, high_length


def _whole(k: ArrayLike) -> Any:
    values = np.asarray(k)
    if values.size and (np.any(values < 0) or (values.dtype.kind == "f" and np.any(values != np.floor(values)))):
        raise InputError("k", values.tolist(), "whole numbers of draft tokens, 0 or more")
    return values.astype(np.intp)
