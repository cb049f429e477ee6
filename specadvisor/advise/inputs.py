"""Checks of what a user states about a load: one clear error per value that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from specadvisor.acceptance import parse_mix
from specadvisor.advise.recommendation import Load, Objective
from specadvisor.checks import positive, whole
from specadvisor.errors import InputError, nearest

# Loads at which advice is given when none is stated.
DEFAULT_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Keys a decode step sees when no lengths are stated: a chat turn with some history.
DEFAULT_CONTEXT = 2048
LARGEST_CONCURRENCY = 100_000
LARGEST_TOKENS = 20_000_000


def loads_of(concurrency: int | Sequence[int]) -> tuple[int, ...]:
    """The numbers of requests in flight, ascending without repeats; raises ``InputError``."""
    stated: Any = concurrency
    loads = list(stated) if isinstance(stated, Iterable) and not isinstance(stated, str) else [stated]
    if not loads:
        raise InputError("concurrency", loads, "at least one number of requests in flight")
    return tuple(sorted({whole("concurrency", c, 1, LARGEST_CONCURRENCY) for c in loads}))


def make_load(
    concurrency: int | Sequence[int] | None,
    input_tokens: int | None,
    output_tokens: int | None,
    context: int | None,
    workload: str,
    temperature: float,
    objective: str,
    max_tpot_s: float | None,
    max_ttft_s: float | None,
) -> Load:
    """A checked ``Load``. Context unless stated: input + output / 2 (the mean over a request), else the default."""
    users = loads_of(DEFAULT_CONCURRENCY if concurrency is None else concurrency)
    prompt = None if input_tokens is None else whole("input tokens", input_tokens, 1, LARGEST_TOKENS)
    output = None if output_tokens is None else whole("output tokens", output_tokens, 1, LARGEST_TOKENS)
    keys = (prompt or DEFAULT_CONTEXT) + (output or 0) // 2
    if context is not None:
        keys = whole("context", context, 1, LARGEST_TOKENS)
        if prompt is not None and keys < prompt:
            raise InputError("context", keys, f"at least the {prompt} input tokens, which every step sees")
    if objective not in get_args(Objective):
        accepted = ", ".join(get_args(Objective))
        raise InputError("objective", objective, accepted, nearest(str(objective), get_args(Objective)))
    tpot = None if max_tpot_s is None else positive("max TPOT (seconds)", max_tpot_s)
    ttft = None if max_ttft_s is None else positive("max TTFT (seconds)", max_ttft_s)
    if objective == "goodput" and tpot is None and ttft is None:
        raise InputError("objective", objective, "goodput with a limit", "State a largest TPOT or TTFT.")
    if objective != "goodput" and (tpot is not None or ttft is not None):
        which, limit = ("TPOT", max_tpot_s) if tpot is not None else ("TTFT", max_ttft_s)
        hint = f"The objective is {objective}."
        raise InputError(f"max {which} (seconds)", limit, "a limit with objective goodput", hint)
    if ttft is not None and prompt is None:
        raise InputError("max TTFT (seconds)", max_ttft_s, "a limit together with input tokens")
    try:
        heat = float(temperature)
    except (TypeError, ValueError):
        heat = -1.0
    if not 0 <= heat <= 10:
        raise InputError("temperature", temperature, "a number from 0 to 10")
    parse_mix(workload)
    return Load(users, keys, prompt, output, workload, heat, objective, tpot, ttft)  # type: ignore[arg-type]
