"""The tuner of a deployment: round times as the model predicts them, acceptance as the catalogue has it at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.acceptance.survival import Survival
from specadvisor.advise.candidates import candidates
from specadvisor.advise.evaluate import evaluate
from specadvisor.advise.inputs import LARGEST_TOKENS, loads_of
from specadvisor.advise.round_times import RoundTimes
from specadvisor.advise.tuner import Tuner
from specadvisor.checks import whole
from specadvisor.drafters import Drafter
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray
from specadvisor.step import Deployment

if TYPE_CHECKING:
    from specadvisor.advise.advisor import Advisor


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
    found = candidates(advisor.deployment, drafter, acceptance, workload, temperature, (), context)
    one = found.drafters[0]
    survival = found.survival[one.name]
    most = min(one.k_max, 16) if k_max is None else whole("k_max", k_max, 1, one.k_max)
    times = predicted_times(advisor.deployment, one, survival, most, concurrency, context, input_tokens, output_tokens)
    ks = [k for k in one.allowed_k() if k <= most]
    if not ks:
        raise InputError("k_max", most, f"at least {one.allowed_k()[0]} draft tokens for {one.name}")
    return Tuner([0, *ks] if allow_off else ks, times, survival, kind=one.kind, lookup=one.lookup, **options)


def predicted_times(
    deployment: Deployment,
    drafter: Drafter,
    survival: Survival,
    k_max: int,
    concurrency: Sequence[int],
    context: int,
    input_tokens: int | None,
    output_tokens: int | None,
) -> RoundTimes:
    """Round times over ``concurrency`` and k = 0..``k_max``, requests that run together, prefill per token."""
    loads = np.array(loads_of(concurrency), dtype=float)
    keys = float(whole("context", context, 1, LARGEST_TOKENS))
    ks = np.arange(1, k_max + 1)
    grid = evaluate(deployment, drafter, survival, ks[None, :], loads[:, None], keys, input_tokens, output_tokens)

    def table(plain: FloatArray, speculating: FloatArray) -> FloatArray:
        both = np.broadcast_to(plain, (loads.size, 1)), np.broadcast_to(speculating, (loads.size, k_max))
        return np.concatenate(both, axis=1)

    round_s = table(grid.baseline.total_s, grid.round_s)
    batch = table(grid.baseline_batch, grid.batch)
    # throughput = B AL / (round + B AL t): recover B t from it, whatever the prefill model was.
    gain = batch * table(np.ones(1), grid.acceptance_length.mid)
    throughput = table(grid.baseline_throughput_tok_s, grid.throughput_tok_s) / max(deployment.dp, 1)
    per_token_s = np.maximum(gain / throughput - round_s, 0.0) / (gain / batch)
    return RoundTimes(loads, round_s, batch, per_token_s)
