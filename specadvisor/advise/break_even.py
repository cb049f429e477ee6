"""Is training a drafter worth it: output tokens after which the saved GPU time has paid for the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specadvisor.advise.recommendation import Curve, Load
from specadvisor.advise.standing import CANNOT_RUN, TO_BE_TRAINED, availability, origin, score
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray, Range

PLAIN = "plain decoding"
UNIT = "currency units of --gpu-price"


@dataclass(frozen=True, slots=True)
class Payback:
    """Against running ``against``: money saved per million output tokens, tokens until the training has paid (inf: never),
    and the days that takes at the predicted rate, all day long. Money is in the unit of the GPU price.
    """

    against: str
    saved_per_million_tokens: Range
    tokens: Range
    days: Range


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The drafter that would be trained, at the largest load it speeds up, against each way to serve without training.

    ``drafter`` is None where none of those compared needs training; ``reason`` then says where each comes from.
    ``against``: plain decoding first, then the best drafter that exists without training, if one gains there.
    """

    drafter: str | None
    reason: str
    concurrency: int
    gpu_price_per_hour: float
    train_gpu_hours: float
    training_cost: float
    against: tuple[Payback, ...]

    def sentences(self) -> tuple[str, ...]:
        """The answer in words."""
        if self.drafter is None:
            return (self.reason,)
        head = (
            f"training {self.drafter} for {self.train_gpu_hours:g} GPU hours costs {self.training_cost:,.0f} ({UNIT}); "
            f"at concurrency {self.concurrency}:"
        )
        return (head, *(_sentence(one) for one in self.against))


def _sentence(one: Payback) -> str:
    if not np.isfinite(one.tokens.mid):
        return f"against {one.against} it never pays: it is not expected to be cheaper."
    high = f"{one.tokens.high:.2g}" if np.isfinite(one.tokens.high) else "never"
    return (
        f"against {one.against} it saves {one.saved_per_million_tokens.mid:.3g} a million output tokens: paid after "
        f"{one.tokens.mid:.2g} tokens ({one.tokens.low:.2g} to {high}), {one.days.mid:.3g} days at full load."
    )


def break_even(
    curves: Mapping[str, Curve],
    load: Load,
    plain_tok_s: Sequence[float] | FloatArray,
    serving_gpus: int,
    gpu_price_per_hour: float,
    train_gpu_hours: float,
) -> BreakEven | None:
    """Break-even of the best of ``curves`` that has to be trained; None without any curve.

    ``plain_tok_s``: output tokens per second of plain decoding on ``serving_gpus`` at each load. Raises ``InputError``.
    """
    for field, value in (("GPU price", gpu_price_per_hour), ("training GPU hours", train_gpu_hours)):
        if isinstance(value, bool) or not 0 < value < 1e9:
            raise InputError(field, value, "a number above 0")
    runs = [c for c in curves.values() if origin(c) != CANNOT_RUN]
    runs = [c for c in runs if not c.drafter.lossy] or runs
    if not runs:
        return None
    cost = gpu_price_per_hour * train_gpu_hours
    trained = max((c for c in runs if availability(c.drafter) == TO_BE_TRAINED), key=score, default=None)
    if trained is None:
        named = ", ".join(f"{c.name} ({availability(c.drafter)})" for c in runs)
        reason = f"none of the drafters compared needs training: {named}. Name one that does with --drafter."
        return BreakEven(None, reason, load.concurrency[-1], gpu_price_per_hour, train_gpu_hours, cost, ())
    column = _column(trained)
    plain_cost = serving_gpus * gpu_price_per_hour / 3600.0 / float(plain_tok_s[column])
    gain = _speedup(trained, column)
    rate = float(plain_tok_s[column]) / trained.gains.gpu_share
    one = Range(1.0, 1.0, 1.0)
    against = [payback(PLAIN, cost, plain_cost, one, gain, rate)]
    ready = [c for c in runs if availability(c.drafter) != TO_BE_TRAINED and _speedup(c, column).mid > 1.0]
    if ready:
        best = max(ready, key=lambda c: _speedup(c, column).mid)
        label = f"{best.name} ({availability(best.drafter)})"
        against.append(payback(label, cost, plain_cost, _speedup(best, column), gain, rate))
    return BreakEven(trained.name, "", load.concurrency[column], gpu_price_per_hour, train_gpu_hours, cost, tuple(against))


def payback(against: str, training_cost: float, plain_cost: float, without: Range, gain: Range, plain_tok_s: float) -> Payback:
    """Money per token is ``plain_cost`` / speed-up per GPU; tokens = training cost / (cost without - cost with).

    ``without`` and ``gain``: speed-ups of what runs without training and of the trained drafter; ``plain_tok_s`` turns the
    latter into its tokens per second. Their errors are taken as independent, in the ratio of the two. An end of the range
    at which the trained drafter is not cheaper never pays: its number of tokens is infinite.
    """
    ratio = gain.mid / without.mid
    down = np.hypot(np.log(gain.mid / gain.low), np.log(without.high / without.mid))
    up = np.hypot(np.log(gain.high / gain.mid), np.log(without.mid / without.low))
    base = plain_cost / without.mid

    def saved(times: float) -> float:
        return base * (1.0 - 1.0 / times)

    def tokens(times: float) -> float:
        return training_cost / saved(times) if times > 1.0 else float("inf")

    ends = float(ratio * np.exp(-down)), float(ratio), float(ratio * np.exp(up))
    days = [tokens(times) / (plain_tok_s * without.mid * times) / 86400.0 for times in reversed(ends)]
    return Payback(
        against,
        Range(*(1e6 * saved(times) for times in ends)),
        Range(*(tokens(times) for times in reversed(ends))),
        Range(*days),
    )


def _column(curve: Curve) -> int:
    """The load where a drafter saves most money per hour: the largest that it still speeds up."""
    paying = [c for c, choice in enumerate(curve.choices) if choice.k > 0 and choice.gain.mid > 1.0]
    return paying[-1] if paying else len(curve.choices) - 1


def _speedup(curve: Curve, column: int) -> Range:
    """Throughput per GPU over plain decoding at the k chosen for that load (the smallest k where that is none)."""
    k = curve.choices[column].k or curve.drafter.allowed_k()[0]
    row, speedup = curve.row(k), curve.gains.throughput_speedup
    shape = curve.gains.meets.shape
    return Range(*(float(np.broadcast_to(v, shape)[row, column]) for v in (speedup.low, speedup.mid, speedup.high)))
