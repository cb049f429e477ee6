"""What a tuner believes of acceptance: one logit per draft position, from discounted counts and the kind's usual shape.

The logits z_j of the conditional acceptances a_j have a normal prior: its mean is the catalogue's curve; its covariance
has a common level, the run from the first position to the plateau (``acceptance/shape.py``) and a remainder of each
position's own, of which neighbours share a part. It is worth some ten rounds a position, so the shape decides while
little is known and the counts decide afterwards, whatever shape they have. Counts are forgotten as new ones arrive.

What is identifiable: counts by position (or the accepted drafts of single requests) determine a_1..a_k, and leave what
lies beyond k to the prior and to trials. A sum over requests determines AL(k) at the k that ran; which positions make it
up shows in sums at neighbouring k, and in how sums of few requests scatter from round to round (half its information is
used: a change of text common to all requests scatters them, too). All counts are fitted together at every round: a
filter that keeps only a mean and a covariance of the logits grows sure of positions it never saw apart, because sums are
far from linear in them.
"""

from __future__ import annotations

import numpy as np

from specadvisor.acceptance.shape import SLOPE, KindShape
from specadvisor.acceptance.survival import REFERENCE_K, Survival
from specadvisor.ranges import FloatArray

# Standard deviations in logits: texts differ in level; positions differ on their own and together with neighbours.
_LEVEL_SPREAD = 1.0
_OWN_SPREAD = 0.9
_NEIGHBOUR_SPREAD = 0.5
_NEIGHBOURS = 4.0
# Rounds that a prior can be worth at the start, however sure it is.
_MOST_PRIOR_ROUNDS = 200.0
# Where a logit wanders by ``drift`` a round and n requests a round show it, about 5 / (drift sqrt(n)) rounds are kept.
_MEMORY = 5.0
_LEAST_MEMORY = 50.0
# What is accepted against what was expected, in standard deviations, smoothed over some rounds: four standard deviations of
# that mean away, the text has changed, and what was counted before is worth a part of itself.
_SMOOTHING = 0.05
_SURPRISE = 4.0 * float(np.sqrt(_SMOOTHING / (2.0 - _SMOOTHING)))
_LARGEST_SURPRISE = 6.0
_WORTH_AFTER_CHANGE = 0.1
# Rounds without drafts show nothing that could replace what is forgotten.
_IDLE = 0.1
# Requests up to which the scatter of sums is used, and the part of its information.
_FEW, _SCATTER = 16.0, 0.5
MOST_COUNTS = 1e9
_LEAST_VARIANCE = 0.02
_LARGEST_LOGIT = 8.0
_MOST_STEPS, _LONGEST_STEP, _SHORTEST_STEP = 6, 1.0, 0.02
ANEW = 60


class PositionPosterior:
    """``counts`` (6, k_max): rounds that reached position j and that passed it; requests' rounds at k of which only the sum
    is known, and their accepted drafts; rounds at k of few requests, and their squared deviations. Not thread-safe.
    """

    def __init__(self, prior: Survival, usual: KindShape, k_max: int, drift: float) -> None:
        s = prior.extended(k_max)
        conditional = np.clip(Survival(s).conditional, 1e-3, 1 - 1e-3)
        self._usual = np.log(conditional / (1.0 - conditional))
        position = np.arange(k_max)
        to_plateau = 1.0 - usual.rate**position
        level = 1.0 - (1.0 - SLOPE) * to_plateau
        covariance = _LEVEL_SPREAD**2 * np.outer(level, level) + usual.spread**2 * np.outer(to_plateau, to_plateau)
        covariance += _NEIGHBOUR_SPREAD**2 * np.exp(-np.abs(position[:, None] - position) / _NEIGHBOURS)
        self._precision = np.linalg.inv(covariance + _OWN_SPREAD**2 * np.eye(k_max))
        self._drift = drift
        self._weights = 2.0 * position + 1.0
        self.counts = np.zeros((6, k_max))
        gain = float(prior.acceptance_length(REFERENCE_K)) - 1.0
        worth = prior.length_variance(REFERENCE_K) / max(gain * prior.sigma, 1e-3) ** 2
        reached = np.concatenate(([1.0], s[:-1]))
        self.counts[:2] = min(worth, _MOST_PRIOR_ROUNDS) * np.array([reached, reached * conditional])
        self.surprise = 0.0
        self._logits = self._usual.copy()
        self.fit(ANEW)

    @property
    def conditional(self) -> FloatArray:
        """a_1..a_k_max as most likely."""
        return _sigmoid(self._logits)

    def lengths(self) -> tuple[FloatArray, FloatArray]:
        """(AL(k), covariance of AL(k) and AL(k')), k = 0..k_max; the covariance linear in the logits."""
        k_max = self._logits.size
        length, slope = np.ones(k_max + 1), np.zeros((k_max + 1, k_max))
        gains, slope[1:] = _gains(_sigmoid(self._logits))
        length[1:] += gains
        return length, slope @ self._covariance @ slope.T

    def forget(self, requests: float, rounds: float) -> None:
        """``rounds`` rounds that show ``requests`` requests each."""
        memory = _MEMORY / max(self._drift * np.sqrt(max(requests, 1.0)), 1e-12)
        self.counts *= np.exp(-rounds / max(memory, _LEAST_MEMORY))

    def forget_idle(self, rounds: float) -> None:
        """``rounds`` rounds without drafts."""
        self.forget(1.0, _IDLE * rounds)

    def notice(self, k: int, accepted: float, requests: float) -> bool:
        """Before the counts of a round at ``k`` are added: whether the text has changed; most earlier counts are then lost."""
        gains, slope = _gains(_sigmoid(self._logits))
        s = np.diff(gains[:k], prepend=0.0)
        variance = max(float(self._weights[:k] @ s) - float(gains[k - 1]) ** 2, _LEAST_VARIANCE) / requests
        variance += float(slope[k - 1] @ self._covariance @ slope[k - 1])
        z = (accepted / requests - float(gains[k - 1])) / variance**0.5
        z = min(max(z, -_LARGEST_SURPRISE), _LARGEST_SURPRISE)
        self.surprise += _SMOOTHING * (z - self.surprise)
        changed = abs(self.surprise) > _SURPRISE
        if changed:
            self.surprise = 0.0
            self.counts *= _WORTH_AFTER_CHANGE
        return changed

    def see_positions(self, reached: FloatArray, passed: FloatArray) -> None:
        """``reached[j]`` drafts of position j + 1 had all before them accepted; ``passed[j]`` of these were, too."""
        self.counts[0, : reached.size] += reached
        self.counts[1, : passed.size] += passed

    def see_sum(self, k: int, accepted: float, requests: float, rounds: float = 1.0) -> None:
        """``accepted`` drafts of ``requests`` requests' rounds at ``k``, together in ``rounds`` rounds."""
        self.counts[2, k - 1] += requests
        self.counts[3, k - 1] += accepted
        if rounds == 1 and requests <= _FEW:
            off = accepted / requests - float(_gains(_sigmoid(self._logits))[0][k - 1])
            self.counts[4, k - 1] += 1.0
            self.counts[5, k - 1] += requests * off**2

    def fit(self, most_steps: int = _MOST_STEPS) -> None:
        """The most likely logits given the counts (Fisher scoring from the last ones) and their covariance there."""
        if self.counts.max() > MOST_COUNTS:
            self.counts *= MOST_COUNTS / self.counts.max()
        reached, passed, requests, accepted, rounds, squares = self.counts
        logits = self._logits
        for _ in range(most_steps):
            a = _sigmoid(logits)
            gains, slope = _gains(a)
            # Variance of a request's accepted drafts at k: sum (2j - 1) s_j - (sum s_j)^2.
            moments = np.cumsum(self._weights * np.diff(gains, prepend=0.0))
            variance = np.maximum(moments - gains**2, _LEAST_VARIANCE)
            before = np.concatenate(([0.0], moments[:-1]))
            # d log(variance) / d z_j; one round shows the logarithm of a variance with an error of sqrt(2).
            scatter = np.tril((1.0 - a) * (moments[:, None] - before)) - 2.0 * gains[:, None] * slope
            scatter /= variance[:, None]
            information = self._precision + (slope.T * (requests / variance)) @ slope
            information += 0.5 * _SCATTER * (scatter.T * rounds) @ scatter
            information.flat[:: a.size + 1] += reached * a * (1.0 - a)
            pull = passed - reached * a + ((accepted - requests * gains) / variance) @ slope
            pull += 0.5 * _SCATTER * (squares / variance - rounds) @ scatter
            self._covariance = np.linalg.inv(information)
            step = self._covariance @ (pull - self._precision @ (logits - self._usual))
            longest = float(np.abs(step).max())
            logits = np.clip(logits + step * min(1.0, _LONGEST_STEP / max(longest, 1e-12)), -_LARGEST_LOGIT, _LARGEST_LOGIT)
            if longest < _SHORTEST_STEP:
                break
        self._logits = logits


def _gains(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(AL(k) - 1, its derivative by z_j as [k - 1, j - 1]) for k = 1..k_max."""
    gains = np.cumsum(np.cumprod(a))
    before = np.concatenate(([0.0], gains[:-1]))
    # d s_i / d z_j = s_i (1 - a_j) for i >= j.
    return gains, np.tril((1.0 - a) * (gains[:, None] - before))


def _sigmoid(z: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))
