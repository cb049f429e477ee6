"""One pass over a grid: what a round costs, how many tokens it gives, and how it compares with plain decoding.

Everything here is pure and vectorised: ``k``, ``concurrency``, ``context``, ``input_tokens`` and ``output_tokens`` are
arrays that broadcast against each other in whatever axes the caller chose.

Formulas (B admitted batch, t = one prefill / output tokens, 0 where the prompt or output length is unknown)::

    AL(k)         = 1 + sum_{j<=k} s_j
    throughput(k) = B * AL / (round + B * AL * t)          throughput(0) = B0 / (step + B0 * t)
    TPOT(k)       = round / AL + (B - 1) * t               TPOT(0)       = step + (B0 - 1) * t

A closed loop of B requests finishes B * AL tokens a round and pays one prefill of the prompt for every output_tokens of
them; a request's own prefill is its time to first token, so the TPOT sees the B - 1 others. A drafter reads every prompt
too: its own prefill is added to t where it runs. The speed-up of the throughput is per GPU: where GPUs do nothing but draft
it is throughput(k) / throughput(0) times the part of the GPUs that runs the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.advise.uncertainty import RESIDUAL_SIGMA, acceptance_sigma, log_ratio_sigma, operator_sigmas
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray, Range
from specadvisor.step import Deployment, StepTime, admitted, exposed_host_s, prefill_s, resident, target_step

if TYPE_CHECKING:
    from specadvisor.acceptance import Survival
    from specadvisor.drafters import Drafter


@dataclass(frozen=True)
class Evaluation:
    """Costs and gains over a grid. ``baseline_*`` fields have the grid's shape without the k axis (broadcastable).

    Times are seconds, throughputs are output tokens per second of the whole deployment (all replicas); ``batch`` is the
    number of requests that run together on one replica, after the KV pool and the engine's admission limit. ``extra_gpus``
    of each replica do nothing but draft: ``throughput_speedup`` is per GPU, of which the part ``gpu_share`` runs the target.
    """

    k: FloatArray
    concurrency: FloatArray
    context: FloatArray
    baseline: StepTime
    baseline_batch: FloatArray
    baseline_throughput_tok_s: FloatArray
    baseline_tpot_s: FloatArray
    round: StepTime
    draft: StepTime
    verified_tokens: FloatArray
    batch: FloatArray
    acceptance_length: Range
    prefill_s: FloatArray
    throughput_tok_s: FloatArray
    tpot_s: FloatArray
    throughput_speedup: Range
    tpot_speedup: Range
    extra_gpus: int = 0
    gpu_share: float = 1.0

    @property
    def round_s(self) -> FloatArray:
        return self.round.total_s

    @property
    def draft_s(self) -> FloatArray:
        return self.draft.total_s

    @property
    def draft_share(self) -> FloatArray:
        """Part of the round that is spent drafting (guideline 4 and 5 call it the overhead)."""
        return self.draft_s / self.round.total_s

    @property
    def equal_batch_speedup(self) -> FloatArray:
        """AL * step / round with both as admitted, prefill left out: the speed-up of the decode loop alone."""
        return self.acceptance_length.mid * self.baseline.total_s / self.round.total_s

    @property
    def favourable(self) -> FloatArray:
        """Factor on a speed-up if the acceptance were at the upper end of its interval and the costs as expected."""
        length = np.asarray(self.acceptance_length.high) / self.acceptance_length.mid
        decode = self.round.total_s / (self.tpot_s * self.acceptance_length.mid)
        return np.asarray(length / (decode + (1.0 - decode) * length))


@dataclass(frozen=True)
class Baseline:
    """Plain decoding over (concurrency, context), with or without an idle drafter's memory."""

    step: StepTime
    batch: FloatArray
    prefill_s: FloatArray
    prefill_per_token_s: FloatArray
    replicas: FloatArray

    @property
    def throughput_tok_s(self) -> FloatArray:
        return self.replicas * self.batch / (self.step.total_s + self.batch * self.prefill_per_token_s)

    @property
    def tpot_s(self) -> FloatArray:
        return self.step.total_s + (self.batch - 1.0) * self.prefill_per_token_s


def baseline(
    deployment: Deployment,
    concurrency: ArrayLike,
    context: ArrayLike,
    input_tokens: ArrayLike | None = None,
    output_tokens: ArrayLike | None = None,
) -> Baseline:
    """Plain decoding with nothing else in memory: the reference of every speed-up."""
    concurrency, context = _floats(concurrency), _floats(context)
    load, replicas = per_replica(concurrency, deployment.dp)
    batch = admitted(deployment, resident(deployment), load, context)
    prefill, per_token = _prefill(deployment, input_tokens, output_tokens)
    return Baseline(target_step(deployment, batch, 1.0, context), batch, prefill, per_token, replicas)


def evaluate(
    deployment: Deployment,
    drafter: Drafter,
    survival: Survival,
    k: ArrayLike,
    concurrency: ArrayLike,
    context: ArrayLike,
    input_tokens: ArrayLike | None = None,
    output_tokens: ArrayLike | None = None,
    *,
    plain: Baseline | None = None,
    residual_sigma: float = RESIDUAL_SIGMA,
    sigmas: Mapping[str, float] | None = None,
) -> Evaluation:
    """Evaluate every point of the grid; ``k`` counts from 1 (``plain`` is k = 0 and may be passed in when already known).

    ``input_tokens`` / ``output_tokens``: prompt and output length, None (or nan) leaves the prefill term out.
    ``residual_sigma``: log standard deviation of what neither the operators nor the acceptance explain.
    Raises ``InputError`` for k < 1 or k above what the drafter can propose.
    """
    k, concurrency, context = _floats(k), _floats(concurrency), _floats(context)
    check_k(k, drafter)
    plain = plain or baseline(deployment, concurrency, context, input_tokens, output_tokens)
    load, replicas = per_replica(concurrency, deployment.dp)
    drafter = drafter.on(deployment)
    batch = admitted_speculating(deployment, drafter, k, load, context)
    length: Range = survival.range(k)
    drafted = drafter.round(deployment, batch, k, context, length.mid, survival.extended(int(k.max())))
    if drafted.acceptance_length is not None:
        length = rescaled(length, drafted.acceptance_length)
    on_gpu = drafted.draft + target_step(deployment, batch, drafted.verified_tokens, context, host=False)
    round_time = on_gpu.plus("host", exposed_host_s(drafter.scheduled(deployment), on_gpu.total_s)) + drafted.overhead
    per_token = plain.prefill_per_token_s * _with_drafter(deployment, drafter, plain.prefill_s, input_tokens)
    prefill_per_round = batch * length.mid * per_token
    others_per_round = (batch - 1.0) * length.mid * per_token

    throughput = replicas * batch * length.mid / (round_time.total_s + prefill_per_round)
    tpot = (round_time.total_s + others_per_round) / length.mid
    sigmas = operator_sigmas(deployment) if sigmas is None else sigmas
    spread = acceptance_sigma(length)
    base_prefill = plain.batch * plain.prefill_per_token_s
    base_others = (plain.batch - 1.0) * plain.prefill_per_token_s
    sure = (sigmas, spread, residual_sigma)
    verified = drafted.verified_tokens
    share = deployment.ranks / (deployment.ranks + drafted.extra_gpus)
    throughput_sigma = log_ratio_sigma(plain.step, round_time, verified, base_prefill, prefill_per_round, *sure)
    tpot_sigma = log_ratio_sigma(plain.step, round_time, verified, base_others, others_per_round, *sure)
    return Evaluation(
        k=k,
        concurrency=concurrency,
        context=context,
        baseline=plain.step,
        baseline_batch=plain.batch,
        baseline_throughput_tok_s=plain.throughput_tok_s,
        baseline_tpot_s=plain.tpot_s,
        round=round_time,
        draft=drafted.draft,
        verified_tokens=drafted.verified_tokens,
        batch=batch,
        acceptance_length=length,
        prefill_s=plain.prefill_s,
        throughput_tok_s=throughput,
        tpot_s=tpot,
        throughput_speedup=Range.log_normal(share * throughput / plain.throughput_tok_s, throughput_sigma),
        tpot_speedup=Range.log_normal(plain.tpot_s / tpot, tpot_sigma),
        extra_gpus=drafted.extra_gpus,
        gpu_share=share,
    )


def _with_drafter(
    deployment: Deployment, drafter: Drafter, prefill_seconds: FloatArray, input_tokens: ArrayLike | None
) -> FloatArray:
    """Factor on the prefill: the drafter reads every prompt too. 1 where the prompt is unknown."""
    if input_tokens is None:
        return _floats(1.0)
    prompt = np.nan_to_num(_floats(input_tokens), nan=0.0)
    own = np.where(prompt > 0, drafter.drafter_prefill_s(deployment, np.maximum(prompt, 1.0)), 0.0)
    return _floats(1.0 + own / np.where(prompt > 0, prefill_seconds, 1.0))


def admitted_speculating(
    deployment: Deployment, drafter: Drafter, k: FloatArray, load: FloatArray, context: FloatArray
) -> FloatArray:
    """Requests of one replica that run together with ``drafter`` in memory and ``k`` drafts each (0: loaded but idle)."""
    memory = resident(deployment, drafter)
    serving = deployment.serving
    limit = serving.budget_requests(deployment.gpu, drafter.kind, k)
    held = drafter.held_slots(serving, k)
    return admitted(deployment, memory, np.minimum(load, limit), context, speculating=True, slots=held, k=k)


def rescaled(length: Range, mid: FloatArray) -> Range:
    """``length`` moved to ``mid`` with its relative spread of AL - 1 (the round itself decided how much it verifies)."""
    factor = (mid - 1.0) / np.maximum(np.asarray(length.mid) - 1.0, 1e-12)
    return Range(1.0 + (length.low - 1.0) * factor, mid, 1.0 + (length.high - 1.0) * factor)


def check_k(k: FloatArray, drafter: Drafter) -> None:
    """Raise ``InputError`` where a number of draft tokens is not one this drafter can propose."""
    if not k.size or k.min() < 1 or np.any(k != np.floor(k)):
        raise InputError("k", k.ravel().tolist(), "whole numbers of draft tokens, 1 or more")
    if k.max() > drafter.k_max:
        raise InputError("k", int(k.max()), f"at most {drafter.k_max} draft tokens for {drafter.name}")


def per_replica(concurrency: FloatArray, dp: int) -> tuple[FloatArray, FloatArray]:
    """(requests on one busy replica, busy replicas): data parallelism splits the load before anything else sees it."""
    replicas = np.minimum(float(dp), concurrency)
    return np.maximum(1.0, concurrency / dp), replicas


def _prefill(
    deployment: Deployment, input_tokens: ArrayLike | None, output_tokens: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """(seconds of one prefill, seconds of prefill per output token); the second is 0 where a length is unknown."""
    if input_tokens is None:
        return _floats(np.nan), _floats(0.0)
    prompt = _floats(input_tokens)
    seconds = np.where(np.isnan(prompt), np.nan, prefill_s(deployment, np.nan_to_num(prompt, nan=1.0)))
    output = _floats(np.nan if output_tokens is None else output_tokens)
    return seconds, np.nan_to_num(seconds / output, nan=0.0)


def _floats(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)
