"""One (drafter, k) at one load as a flat record; plain decoding too."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor.advise.choose import verdict
from specadvisor.advise.evaluate import Baseline
from specadvisor.advise.recommendation import NO_DRAFTER, Curve, Load, Option
from specadvisor.ranges import Range
from specadvisor.step import Deployment

ONE = Range(1.0, 1.0, 1.0)


def option(load: Load, curve: Curve, row: int, column: int) -> Option:
    """The option at one cell of the grid."""
    evaluation, found = curve.evaluation, curve.gains
    shape = found.meets.shape

    def at(values: Any) -> float:
        return float(np.broadcast_to(values, shape)[row, column])

    def ranged(value: Range) -> Range:
        return Range(at(value.low), at(value.mid), at(value.high))

    throughput, tpot = ranged(found.throughput_speedup), ranged(found.tpot_speedup)
    tok_s, tpot_s, meets = at(found.throughput_tok_s), at(found.tpot_s), bool(found.meets[row, column])
    return Option(
        concurrency=load.concurrency[column],
        drafter=curve.name,
        k=int(evaluation.k.ravel()[row]),
        acceptance_length=ranged(evaluation.acceptance_length),
        batch=at(evaluation.batch),
        round_s=at(evaluation.round_s),
        draft_share=at(evaluation.draft_share),
        throughput_tok_s=tok_s,
        tpot_s=tpot_s,
        ttft_s=at(found.ttft_s),
        throughput_speedup=throughput,
        tpot_speedup=tpot,
        extra_gpus=evaluation.extra_gpus,
        objective=_objective(load, tok_s * found.gpu_share, tpot_s, meets),
        meets_limits=meets,
        verdict=verdict(ranged(found.gain)),
    )


def all_options(load: Load, curve: Curve) -> list[Option]:
    """Every (k, load) of one drafter."""
    rows, columns = curve.gains.meets.shape
    return [option(load, curve, row, column) for column in range(columns) for row in range(rows)]


def plain_options(deployment: Deployment, load: Load, plain: Baseline) -> tuple[Option, ...]:
    """k = 0 at each load: no drafter in memory."""
    result = []
    shape = (1, len(load.concurrency))
    batch, step_s, tok_s, tpot_s = (
        np.broadcast_to(v, shape)[0].tolist() for v in (plain.batch, plain.step.total_s, plain.throughput_tok_s, plain.tpot_s)
    )
    for c, users in enumerate(load.concurrency):
        waiting = max(0.0, users - batch[c] * min(deployment.dp, users))
        ttft = float(plain.prefill_s) + step_s[c] + waiting * (load.output_tokens or 0) / tok_s[c]
        meets = (load.max_tpot_s is None or tpot_s[c] <= load.max_tpot_s) and (
            load.max_ttft_s is None or ttft <= load.max_ttft_s
        )
        result.append(
            Option(
                concurrency=users,
                drafter=NO_DRAFTER,
                k=0,
                acceptance_length=ONE,
                batch=batch[c],
                round_s=step_s[c],
                draft_share=0.0,
                throughput_tok_s=tok_s[c],
                tpot_s=tpot_s[c],
                ttft_s=ttft,
                throughput_speedup=ONE,
                tpot_speedup=ONE,
                extra_gpus=0,
                objective=_objective(load, tok_s[c], tpot_s[c], meets),
                meets_limits=meets,
                verdict="not distinguishable",
            )
        )
    return tuple(result)


def _objective(load: Load, tok_s: float, tpot_s: float, meets: bool) -> float:
    if load.objective == "latency":
        return 1.0 / tpot_s
    return tok_s if meets or load.objective != "goodput" else 0.0
