"""Is training a drafter worth it: output tokens after which the saved GPU time has paid for the training."""

from __future__ import annotations

from dataclasses import dataclass

from specadvisor.errors import InputError
from specadvisor.ranges import Range


@dataclass(frozen=True, slots=True)
class BreakEven:
    """``tokens`` to serve before training ``drafter`` has paid (inf: never). ``days``: at the predicted rate, all day long.

    ``saved_per_million_tokens`` and ``training_cost`` are money in the unit of ``gpu_price_per_hour``.
    """

    drafter: str
    concurrency: int
    gpu_price_per_hour: float
    train_gpu_hours: float
    training_cost: float
    saved_per_million_tokens: Range
    tokens: Range
    days: Range


def break_even(
    drafter: str,
    concurrency: int,
    plain_tok_s: float,
    speedup: Range,
    serving_gpus: int,
    gpu_price_per_hour: float,
    train_gpu_hours: float,
) -> BreakEven:
    """Cost per token is serving_gpus * price / throughput; tokens = training cost / (cost without - cost with).

    A range whose low speed-up does not exceed 1 never pays at that end: its ``high`` number of tokens is infinite.
    """
    for field, value in (("GPU price", gpu_price_per_hour), ("training GPU hours", train_gpu_hours)):
        if not 0 < value < 1e9:
            raise InputError(field, value, "a number above 0")
    training = gpu_price_per_hour * train_gpu_hours
    plain_cost = serving_gpus * gpu_price_per_hour / 3600.0 / plain_tok_s

    def saved(gain: float) -> float:
        return plain_cost * (1.0 - 1.0 / gain)

    def tokens(gain: float) -> float:
        return training / saved(gain) if gain > 1.0 else float("inf")

    def days(gain: float) -> float:
        return tokens(gain) / (plain_tok_s * gain) / 86400.0

    return BreakEven(
        drafter,
        concurrency,
        gpu_price_per_hour,
        train_gpu_hours,
        training,
        Range(*(1e6 * saved(g) for g in (speedup.low, speedup.mid, speedup.high))),
        Range(tokens(speedup.high), tokens(speedup.mid), tokens(speedup.low)),
        Range(days(speedup.high), days(speedup.mid), days(speedup.low)),
    )
