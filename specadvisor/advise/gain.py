"""The objective of a ranking: what is compared with plain decoding, and which settings meet the stated limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.advise.anchor import Correction
from specadvisor.advise.evaluate import Evaluation
from specadvisor.advise.recommendation import Load
from specadvisor.ranges import FloatArray, Range

if TYPE_CHECKING:
    from specadvisor.drafters import Drafter
    from specadvisor.step import Deployment


@dataclass(frozen=True)
class Gains:
    """Arrays over (k, concurrency), anchors applied. Times in seconds, throughput in tok/s.

    ``gain``: the objective over plain decoding's; ``plain``: plain decoding's own gain per concurrency (1, or 0 where it
    misses a limit). ``throughput_speedup`` is per GPU, ``throughput_tok_s`` of all of them; ``gpu_share``: part of the GPUs
    that runs the target, the others only draft.
    """

    gain: Range
    plain: FloatArray
    meets: FloatArray
    throughput_speedup: Range
    tpot_speedup: Range
    throughput_tok_s: FloatArray
    tpot_s: FloatArray
    ttft_s: FloatArray
    gpu_share: float


def gains(deployment: Deployment, drafter: Drafter, load: Load, evaluation: Evaluation, correction: Correction | None) -> Gains:
    """Objective of every point of ``evaluation`` (over (k, concurrency)).

    Throughput: output tokens per second, per GPU where drafting takes GPUs of its own. Latency: 1 / TPOT. Goodput:
    throughput of settings within the limits, else 0.
    """
    throughput, tpot = evaluation.throughput_speedup, evaluation.tpot_speedup
    if correction:
        throughput = correction.apply(throughput, evaluation.concurrency)
        tpot = correction.apply(tpot, evaluation.concurrency)
    shape = np.broadcast_shapes(evaluation.k.shape, evaluation.concurrency.shape)
    base_tok_s, base_tpot = evaluation.baseline_throughput_tok_s, evaluation.baseline_tpot_s
    share = evaluation.gpu_share
    tok_s, token_s = base_tok_s * throughput.mid / share, base_tpot / tpot.mid
    extra = np.nan if load.input_tokens is None else drafter.on(deployment).drafter_prefill_s(deployment, load.input_tokens)
    ttft = _ttft(
        load, evaluation.prefill_s + extra, evaluation.round_s, evaluation.batch, evaluation.concurrency, tok_s, deployment.dp
    )
    plain_ttft = _ttft(
        load, evaluation.prefill_s, evaluation.baseline.total_s, evaluation.baseline_batch, evaluation.concurrency,
        base_tok_s, deployment.dp,
    )  # fmt: skip
    meets = np.broadcast_to(_within(load, token_s, ttft), shape)
    plain_meets = np.broadcast_to(_within(load, base_tpot, plain_ttft), (1, *shape[1:]))[0]
    gain = tpot if load.objective == "latency" else throughput
    plain = np.ones(shape[1])
    if load.objective == "goodput":
        gain = Range(*(np.where(meets, np.broadcast_to(v, shape), 0.0) for v in (gain.low, gain.mid, gain.high)))
        plain = plain_meets.astype(float)
    return Gains(gain, plain, meets, throughput, tpot, tok_s, token_s, ttft, share)


def _ttft(
    load: Load, prefill_s: FloatArray, step_s: FloatArray, batch: FloatArray, users: FloatArray, tok_s: FloatArray, dp: int
) -> FloatArray:
    """Prefill, the step it waits for, and the queue: by Little's law (users - running) / requests per second.

    nan where the prompt length is unknown.
    """
    waiting = np.maximum(0.0, users - batch * np.minimum(float(dp), users))
    queue = waiting * (load.output_tokens or 0) / tok_s
    return prefill_s + step_s + queue


def _within(load: Load, tpot_s: FloatArray, ttft_s: FloatArray) -> FloatArray:
    within = np.ones(np.broadcast_shapes(np.shape(tpot_s), np.shape(ttft_s)), dtype=bool)
    if load.max_tpot_s is not None:
        within = within & (tpot_s <= load.max_tpot_s)
    if load.max_ttft_s is not None:
        within = within & (ttft_s <= load.max_ttft_s)
    return within
