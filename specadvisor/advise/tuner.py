"""Choose k while serving: learn the acceptance from the engine's counters, keep to the fastest k for the load.

The belief about acceptance is ``position_posterior.py``. The value of k at a load is its throughput,
AL / (round + AL * prefill per token); a change of k has to be likely better by more than the margin, so noise does not
move it. Now and then a round tries the k that could still turn out best: the dearer a trial is expected to be, the rarer,
so that trials together cost a bounded share of the throughput. That is also how a tuner that went to k = 0 comes back:
rounds at k = 0 count whether they are reported or not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from specadvisor.acceptance.shape import kind_shape
from specadvisor.acceptance.survival import Survival
from specadvisor.advise.observation import Observation, number
from specadvisor.advise.position_posterior import ANEW, PositionPosterior
from specadvisor.advise.round_times import RoundTimes
from specadvisor.advise.tuner_state import TunerState, read_state
from specadvisor.checks import whole
from specadvisor.errors import InputError
from specadvisor.ranges import Z80, FloatArray

LONGEST_WAIT = 1_000_000_000
# A trial that is expected to cost this share of a round comes every ``explore_every`` rounds; the wait is in proportion,
# but a trial that costs nothing waits a tenth of it at first and, while trials change nothing, longer each time.
_TRIAL_LOSS = 0.2
_SOONEST, _LATER = 0.1, 0.00625
# A change of k has to gain this many standard deviations of the gain: four in five then do.
_SURE = 0.85
_MOST_LOADS = 4096


class Tuner:
    """``observe`` what a round accepted, ``choose`` the next k. Safe to call from several threads.

    ``candidates``: the k it may choose, 0 for plain decoding among them if that is allowed. ``margin``: relative gain
    below which k stays. ``explore_every``: rounds between trials of a k that is expected to be 20% slower, in proportion
    for others (0: no trials); trials cost at most 0.2 / ``explore_every`` of the throughput. ``drift``: standard deviation
    by which the logits of acceptance wander per round; 0.015 follows a change of text within some hundred rounds.
    ``lookup``: a drafter that proposes nothing where it finds no match.
    """

    def __init__(
        self,
        candidates: Sequence[int],
        times: RoundTimes,
        prior: Survival,
        *,
        kind: str | None = None,
        lookup: bool = False,
        margin: float = 0.01,
        explore_every: int = 40,
        drift: float = 0.015,
    ) -> None:
        most = times.round_s.shape[1] - 1
        ks = sorted({whole("candidates", k, 0, most) for k in candidates})
        if not ks:
            raise InputError("candidates", list(candidates), f"draft tokens from 0 to {most}")
        self._candidates = np.array(ks)
        self._index = {k: i for i, k in enumerate(ks)}
        self._times = times
        self._margin, drift = number("margin", margin, 0.0), number("drift", drift, 0.0)
        self._explore_every = whole("explore_every", explore_every, 0, LONGEST_WAIT)
        self._k_max = max(ks[-1], 1)
        self._lookup = lookup
        self._belief = PositionPosterior(prior, kind_shape(kind), self._k_max, drift)
        self._current: dict[int, int] = {}
        self._since_trial: dict[int, int] = {}
        self._trials: dict[int, int] = {}
        self._rounds = 0
        self._idle = False
        self._idle_rounds = 0
        self._rows: dict[float, tuple[int, FloatArray, FloatArray, FloatArray]] = {}
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
            s = np.asarray(np.cumprod(self._belief.conditional), dtype=float)
            sd = float(np.sqrt(max(self._belief.lengths()[1][-1, -1], 0.0)))
            source = f"tuner after {self._rounds} rounds"
            return Survival(s, sd / max(float(s.sum()), 1e-3), source, self._rounds > 0)

    def observe(
        self,
        concurrency: float,
        k: int,
        drafted: float,
        accepted: float,
        *,
        per_position: Sequence[float] | None = None,
        per_request: Sequence[int] | None = None,
        requests: float | None = None,
    ) -> None:
        """One round (or several at one k): ``drafted`` and ``accepted`` tokens summed over its requests.

        ``requests``: rounds of single requests behind the sums, those that drafted less than k or nothing among them. Not
        stated it is ``drafted`` / k; of a look-up drafter, whose misses no counter of drafts holds, at least ``concurrency``:
        one round.
        ``per_position``: how many accepted the draft at position 1, 2, ..., k (vLLM:
        ``spec_decode_num_accepted_tokens_per_pos``); ``per_request``: accepted drafts of each request. Either shows which
        position fails. The sums alone show AL at this k and tell positions apart slowly, by trials of other k and by how
        sums of few requests scatter, so report each round on its own (a sum over one request is its own list). A round at
        k = 0 drafts nothing and need not be reported. Raises ``InputError`` for what no round can be.
        """
        load = number("concurrency", concurrency)
        k = whole("k", k, 0, self._k_max)
        at_least = load if self._lookup else 0.0
        seen = Observation.read(k, drafted, accepted, per_position, per_request, requests, at_least)
        with self._lock:
            self._idle = False
            self._rounds += 1
            elapsed = max(1, round(seen.requests / load))
            slot = self._row(load)[0]
            self._wait(slot, elapsed)
            self._forget_idle(0 if k else elapsed)
            if k > 0:
                if self._belief.notice(k, seen.accepted, seen.requests):
                    self._trials.clear()
                self._belief.forget(seen.requests / elapsed, elapsed)
            if seen.reached is not None and seen.passed is not None:
                self._belief.see_positions(seen.reached, seen.passed)
            elif k > 0:
                self._belief.see_sum(k, seen.accepted, seen.requests, elapsed)
            self._refresh()

    def choose(self, concurrency: float) -> int:
        """The k for the next round at this load. Raises ``InputError`` unless that is a number above 0."""
        load = number("concurrency", concurrency)
        with self._lock:
            row = self._row(load)
            if self._idle:
                # Fitted anew at the next observation only, so that a choice stays quick: a trial comes by its wait.
                self._idle_rounds += 1
                self._wait(row[0], 1)
            k = self._choose(*row)
            self._idle = k == 0
            return k

    def to_json(self) -> str:
        """The learnt state; times, candidates and settings are not part of it."""
        with self._lock:
            self._forget_idle()
            return TunerState(self._belief.counts, self._rounds, self._current, self._since_trial).to_json()

    def restore(self, text: str) -> None:
        """Take over a state ``to_json`` wrote, for the same table of times and candidates; raises ``InputError``.

        Nothing changes where the state cannot be used. States of an older version are refused: they hold two numbers in
        place of one per position.
        """
        state = read_state(text, self._candidates.tolist(), self._k_max, self._times.concurrency.size)
        with self._lock:
            self._belief.counts = state.counts
            self._belief.fit(ANEW)
            self._rounds, self._current, self._since_trial = state.rounds, state.current, state.since_trial
            self._trials.clear()
            self._idle, self._idle_rounds = False, 0
            self._refresh()

    def _choose(self, slot: int, round_s: FloatArray, batch: FloatArray, per_token_s: FloatArray) -> int:
        whole_s = round_s + self._length * per_token_s
        value = np.log(batch * self._length / whole_s)
        best = int(value.argmax())
        i = self._index.get(self._current.get(slot, -1), -1)
        if i < 0:
            return self._keep(slot, best)
        gain = value - value[i]
        # d log(value) / d AL: the batch and the round do not depend on the acceptance.
        slope = round_s / (whole_s * self._length)
        variance = slope * (slope * self._variance - 2.0 * slope[i] * self._covariance[i]) + slope[i] ** 2 * self._variance[i]
        sigma = np.sqrt(np.maximum(variance, 0.0))
        hope = gain + self._reach * sigma
        if gain[best] > self._margin and gain[best] > _SURE * sigma[best]:
            return self._keep(slot, best)
        hopeful = int(hope.argmax())
        if hopeful == i and self._candidates[i] == 0:
            # Nothing is seen while nothing is drafted: try the second best, at the price of any trial.
            hope[i] = -np.inf
            hopeful = int(hope.argmax())
        if self._explore_every and (hope[hopeful] > self._margin or self._candidates[i] == 0):
            loss = 1.0 - float(np.exp(gain[hopeful]))
            soonest = min(_SOONEST + _LATER * self._trials.get(slot, 0), 1.0)
            if self._since_trial.get(slot, 0) >= self._explore_every * max(loss / _TRIAL_LOSS, soonest):
                self._since_trial[slot] = 0
                self._trials[slot] = self._trials.get(slot, 0) + 1
                return int(self._candidates[hopeful])
        return int(self._candidates[i])

    def _keep(self, slot: int, index: int) -> int:
        k = int(self._candidates[index])
        if self._current.get(slot) != k:
            self._current[slot], self._trials[slot] = k, 0
        return k

    def _wait(self, slot: int, rounds: int) -> None:
        self._since_trial[slot] = min(self._since_trial.get(slot, 0) + rounds, LONGEST_WAIT)

    def _forget_idle(self, more: int = 0) -> None:
        self._belief.forget_idle(self._idle_rounds + more)
        self._idle_rounds = 0

    def _row(self, load: float) -> tuple[int, FloatArray, FloatArray, FloatArray]:
        """(index of the nearest load of the table, seconds, batch, prefill seconds per token over the candidates)."""
        row = self._rows.get(load)
        if row is None:
            if len(self._rows) >= _MOST_LOADS:
                self._rows.clear()
            round_s, batch, per_token_s = (column[self._candidates] for column in self._times.at(load))
            row = int(np.abs(self._times.concurrency - load).argmin()), round_s, batch, per_token_s
            self._rows[load] = row
        return row

    def _refresh(self) -> None:
        """AL and its covariance over the candidates."""
        self._belief.fit()
        length, covariance = self._belief.lengths()
        ks = self._candidates
        self._length, self._covariance = length[ks], covariance[np.ix_(ks, ks)]
        self._variance = self._covariance.diagonal()
        # The 80% end of AL in standard deviations: normal in the logit of the rate, so longer upwards where little is accepted.
        rate = np.clip((self._length - 1.0) / np.maximum(ks, 1), 1e-6, 1 - 1e-6)
        sigma = np.sqrt(np.maximum(self._variance, 1e-12)) / np.maximum(ks, 1)
        odds = rate / (1.0 - rate) * np.exp(np.minimum(Z80 * sigma / (rate * (1.0 - rate)), 50.0))
        self._reach = np.maximum((odds / (1.0 + odds) - rate) / sigma, Z80)
