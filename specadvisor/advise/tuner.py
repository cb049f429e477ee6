"""Choose k while serving: learn the acceptance from the engine's counters, keep to the fastest k for the load.

The acceptance is two numbers, x = logit(a_1) and y = logit(plateau) (``acceptance/shape.py``), tracked by an extended
Kalman filter: they wander by ``drift`` per round, which is the forgetting, and every observation (accepted drafts per
request at some k) pulls them back. The value of k at a load is its throughput, AL / (round + AL * prefill per token);
a change of k has to be likely better by more than the margin, so noise does not move it. A round now and then tries the
k that could still turn out best, which is also how a tuner that went to k = 0 comes back: rounds at k = 0 count whether
they are reported or not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.acceptance.shape import SLOPE, Shape, kind_shape, logit, sigmoid
from specadvisor.acceptance.survival import Survival
from specadvisor.advise.inputs import LARGEST_TOKENS, loads_of
from specadvisor.advise.round_times import RoundTimes
from specadvisor.checks import whole
from specadvisor.errors import InputError
from specadvisor.ranges import Z80, FloatArray

if TYPE_CHECKING:
    from specadvisor.advise.advisor import Advisor
    from specadvisor.drafters import Drafter

STATE_VERSION = 1
LONGEST_WAIT = 1_000_000_000
# A change of text moves both logits; little of the drift is in their difference.
_DRIFT_TOGETHER = np.array([[1.0, 0.9], [0.9, 1.0]])
_RETURN = 0.01
_STEP = 1e-4


class Tuner:
    """``observe`` what a round accepted, ``choose`` the next k. Safe to call from several threads.

    ``candidates``: the k it may choose, 0 for plain decoding among them if that is allowed. ``margin``: relative gain
    below which k stays. ``explore_every``: rounds between trials of another k (0: never). ``drift``: standard deviation
    by which the logits of acceptance wander per round; 0.015 follows a change of text within some hundred rounds.
    """

    def __init__(
        self,
        candidates: Sequence[int],
        times: RoundTimes,
        prior: Survival,
        *,
        kind: str | None = None,
        margin: float = 0.01,
        explore_every: int = 40,
        drift: float = 0.015,
    ) -> None:
        ks = sorted({int(k) for k in candidates})
        if not ks or ks[0] < 0 or ks[-1] >= times.round_s.shape[1]:
            raise InputError("candidates", list(candidates), f"draft tokens from 0 to {times.round_s.shape[1] - 1}")
        self._candidates = np.array(ks)
        self._times = times
        self._margin, self._drift = _number("margin", margin, 0.0), _number("drift", drift, 0.0)
        self._explore_every = whole("explore_every", explore_every, 0, LONGEST_WAIT)
        self._usual = kind_shape(kind)
        self._k_max = max(ks[-1], 1)
        conditional = np.clip(prior.conditional, 1e-3, 1 - 1e-3)
        start = [logit(float(conditional[0])), logit(float(conditional[min(3, conditional.size - 1)]))]
        self._mean = np.array(start)
        self._intercept = start[1] - SLOPE * start[0]
        # sigma is of log(AL - 1); near half acceptance that is about 0.45 of a logit.
        spread = max(prior.sigma, 0.05) / 0.45
        self._covariance = np.array([[spread**2, 0.8 * spread**2], [0.8 * spread**2, spread**2 + self._usual.spread**2]])
        self._current: dict[int, int] = {}
        self._since_trial: dict[int, int] = {}
        self._rounds = 0
        self._idle = False
        self._lock = threading.Lock()
        self._refresh()

    @property
    def rounds(self) -> int:
        """Observations so far."""
        return self._rounds

    @property
    def survival(self) -> Survival:
        """The acceptance as believed now."""
        with self._lock:
            s = self._shape(self._mean).survival(self._k_max)
            gain_sd = float(np.sqrt(self._slope[:, -1] @ self._covariance @ self._slope[:, -1]))
            return Survival(s, gain_sd / max(float(s.sum()), 1e-3), f"tuner after {self._rounds} rounds", self._rounds > 0)

    def observe(self, concurrency: float, k: int, drafted: float, accepted: float) -> None:
        """One round (or several at one k): ``drafted`` and ``accepted`` tokens summed over its requests.

        A round at k = 0 drafts nothing and need not be reported. Raises ``InputError`` for what no round can be.
        """
        load = _number("concurrency", concurrency)
        k = whole("k", k, 0, int(self._k_max))
        drafted, accepted = _number("drafted", drafted, 0.0), _number("accepted", accepted, 0.0)
        if accepted > drafted or (k == 0) != (drafted == 0):
            given = {"k": k, "drafted": drafted, "accepted": accepted}
            raise InputError("observation", given, "0 <= accepted <= drafted, 0 drafted at k = 0")
        with self._lock:
            self._idle = False
            self._rounds += 1
            self._count_round(self._slot(load))
            if k > 0:
                self._update(k, accepted / (drafted / k), drafted / k)
            self._refresh()

    def choose(self, concurrency: float) -> int:
        """The k for the next round at this load. Raises ``InputError`` unless that is a number above 0."""
        load = _number("concurrency", concurrency)
        with self._lock:
            slot = self._slot(load)
            if self._idle:
                self._count_round(slot)
                self._refresh()
            k = self._choose(slot, load)
            self._idle = k == 0
            return k

    def to_json(self) -> str:
        """The learnt state; times, candidates and settings are not part of it."""
        with self._lock:
            state = {
                "schema_version": STATE_VERSION, "mean": self._mean.tolist(), "covariance": self._covariance.tolist(),
                "rounds": self._rounds, "current": self._current, "since_trial": self._since_trial,
            }  # fmt: skip
        return json.dumps(state)

    def restore(self, text: str) -> None:
        """Take over a state ``to_json`` wrote, for the same table of times."""
        try:
            state = json.loads(text)
            mean, covariance = np.array(state["mean"], dtype=float), np.array(state["covariance"], dtype=float)
            current = {int(slot): int(k) for slot, k in state["current"].items()}
            since = {int(slot): int(n) for slot, n in state["since_trial"].items()}
            rounds = int(state["rounds"])
            if state["schema_version"] != STATE_VERSION or mean.shape != (2,) or covariance.shape != (2, 2):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError("tuner state", text[:60], f"what to_json wrote (schema_version {STATE_VERSION})") from None
        with self._lock:
            self._mean, self._covariance, self._rounds = mean, covariance, rounds
            self._current, self._since_trial = current, since
            self._refresh()

    def _choose(self, slot: int, load: float) -> int:
        ks = self._candidates
        round_s, batch, per_token_s = (column[ks] for column in self._times.at(load))
        length = self._length[ks]
        value = batch * length / (round_s + length * per_token_s)
        # d log(value) / d(x, y): the batch and the round do not depend on the acceptance.
        slope = self._slope[:, ks] * (round_s / ((round_s + length * per_token_s) * length))
        best = int(value.argmax())
        now = self._current.get(slot)
        if now is None or now not in ks:
            self._current[slot] = int(ks[best])
            return int(ks[best])
        i = int(np.searchsorted(ks, now))
        difference = slope - slope[:, i, None]
        spread = np.sqrt(np.maximum((difference * (self._covariance @ difference)).sum(axis=0), 0.0))
        gain = np.log(value / value[i])
        if gain[best] > self._margin and gain[best] > Z80 * spread[best]:
            self._current[slot] = int(ks[best])
            return int(ks[best])
        if self._explore_every and self._since_trial.get(slot, 0) >= self._explore_every:
            self._since_trial[slot] = 0
            hopeful = int((gain + Z80 * spread).argmax())
            if gain[hopeful] + Z80 * spread[hopeful] > self._margin:
                return int(ks[hopeful])
        return now

    def _count_round(self, slot: int) -> None:
        self._since_trial[slot] = self._since_trial.get(slot, 0) + 1
        self._predict()

    def _slot(self, concurrency: float) -> int:
        return int(np.abs(self._times.concurrency - concurrency).argmin())

    def _shape(self, mean: FloatArray) -> Shape:
        return Shape(sigmoid(mean[0]), sigmoid(mean[1]), self._usual.rate, self._usual.depth, self._usual.cliff)

    def _refresh(self) -> None:
        """AL(k), k = 0..k_max, and its derivative by x and y at the mean."""
        table = np.array([self._shape(self._mean + step).survival(self._k_max) for step in (_ZERO, *_STEP * np.eye(2))])
        lengths = np.concatenate((np.ones((3, 1)), 1.0 + np.cumsum(table, axis=1)), axis=1)
        self._length = lengths[0]
        self._slope = (lengths[1:] - lengths[0]) / _STEP

    def _predict(self) -> None:
        """One round's drift. The plateau returns to where the prior had it against a_1: one k tells the two apart badly."""
        x, y = self._mean
        self._mean = np.array([x, y + _RETURN * (self._intercept + SLOPE * x - y)])
        move = np.array([[1.0, 0.0], [_RETURN * SLOPE, 1.0 - _RETURN]])
        self._covariance = move @ self._covariance @ move.T + self._drift**2 * _DRIFT_TOGETHER

    def _update(self, k: int, gain: float, requests: float) -> None:
        """Kalman step for the mean accepted drafts per request at k; its variance is the model's own."""
        k = min(k, self._k_max)
        slope = self._slope[:, k]
        s = np.diff(self._length[: k + 1])
        variance = float((2 * np.arange(1, k + 1) - 1) @ s - s.sum() ** 2)
        noise = max(variance, 0.02) / requests
        weight = self._covariance @ slope / (float(slope @ self._covariance @ slope) + noise)
        self._mean = np.clip(self._mean + weight * (gain - (self._length[k] - 1.0)), -6.0, 6.0)
        updated = self._covariance - np.outer(weight, slope @ self._covariance)
        self._covariance = 0.5 * (updated + updated.T)


_ZERO = np.zeros(2)


def _number(field: str, value: float, lowest: float = 1e-9) -> float:
    """``value`` as a finite float of ``lowest`` or more; raises ``InputError``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(field, value, "a number")
    if not lowest <= value < float("inf"):
        raise InputError(field, value, "a number of 0 or more" if lowest == 0 else "a number above 0")
    return float(value)


def make_tuner(
    advisor: Advisor,
    drafter: str | Drafter,
    concurrency: Sequence[int],
    context: int = 2048,
    *,
    k_max: int | None = None,
    allow_off: bool = True,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    acceptance: Any = None,
    workload: str = "mixed",
    temperature: float = 0.0,
    **options: Any,
) -> Tuner:
    """The tuner of a deployment: its predicted round times over ``concurrency`` and k, its catalogue prior.

    ``options`` are the tuner's own (``margin``, ``explore_every``, ``drift``). Raises ``InputError``.
    """
    from specadvisor.advise.candidates import candidates
    from specadvisor.advise.evaluate import evaluate

    loads = np.array(loads_of(concurrency), dtype=float)
    keys = whole("context", context, 1, LARGEST_TOKENS)
    found = candidates(advisor.deployment, drafter, acceptance, workload, temperature, ())
    one = found.drafters[0]
    ks = np.arange(1, (min(one.k_max, 16) if k_max is None else whole("k_max", k_max, 1, one.k_max)) + 1)
    grid = evaluate(
        advisor.deployment,
        one,
        found.survival[one.name],
        ks[None, :],
        loads[:, None],
        float(keys),
        input_tokens,
        output_tokens,
    )
    shape = (loads.size, 1 + ks.size)

    def table(plain: FloatArray, speculating: FloatArray) -> FloatArray:
        both = np.broadcast_to(plain, (loads.size, 1)), np.broadcast_to(speculating, (loads.size, ks.size))
        return np.concatenate(both, axis=1).reshape(shape)

    round_s = table(grid.baseline.total_s, grid.round_s)
    batch = table(grid.baseline_batch, grid.batch)
    # throughput = B AL / (round + B AL t): recover B t from it, whatever the prefill model was.
    gain = batch * table(np.ones(1), grid.acceptance_length.mid)
    throughput = table(grid.baseline_throughput_tok_s, grid.throughput_tok_s) / max(advisor.deployment.dp, 1)
    per_token_s = np.maximum(gain / throughput - round_s, 0.0) / (gain / batch)
    times = RoundTimes(loads, round_s, batch, per_token_s)
    return Tuner([0, *ks] if allow_off else ks.tolist(), times, found.survival[one.name], kind=one.kind, **options)
