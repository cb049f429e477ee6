"""Every (drafter, k) at every load as one flat record, plain decoding included."""

from __future__ import annotations

import numpy as np

from specadvisor.advise.choose import verdict
from specadvisor.advise.evaluate import Baseline
from specadvisor.advise.gain import Gains
from specadvisor.advise.recommendation import NO_DRAFTER, Curve, Load, Option
from specadvisor.ranges import FloatArray, Range
from specadvisor.step import Deployment

ONE = Range(1.0, 1.0, 1.0)


def options(load: Load, curve: Curve, found: Gains) -> list[Option]:
    """Every (k, load) of one drafter."""
    evaluation, shape = curve.evaluation, np.shape(found.meets)

    def full(values: object) -> FloatArray:
        return np.broadcast_to(np.asarray(values, dtype=float), shape)

    columns = {
        "length": [
            full(v)
            for v in (evaluation.acceptance_length.low, evaluation.acceptance_length.mid, evaluation.acceptance_length.high)
        ],
        "thr": [full(v) for v in (found.throughput_speedup.low, found.throughput_speedup.mid, found.throughput_speedup.high)],
        "tpot": [full(v) for v in (found.tpot_speedup.low, found.tpot_speedup.mid, found.tpot_speedup.high)],
    }
    batch, round_s, share = full(evaluation.batch), full(evaluation.round_s), full(evaluation.draft_share)
    tok_s, tpot_s, ttft_s = full(found.throughput_tok_s), full(found.tpot_s), full(found.ttft_s)
    ks = evaluation.k.ravel().astype(int)
    result: list[Option] = []
    for c, users in enumerate(load.concurrency):
        for i, k in enumerate(ks):
            ranges = {name: Range(*(float(v[i, c]) for v in values)) for name, values in columns.items()}
            meets = bool(found.meets[i, c])
            objective = (
                1.0 / tpot_s[i, c] if load.objective == "latency" else tok_s[i, c] * (meets or load.objective != "goodput")
            )
            result.append(
                Option(
                    users, curve.name, int(k), ranges["length"], float(batch[i, c]), float(round_s[i, c]),
                    float(share[i, c]), float(tok_s[i, c]), float(tpot_s[i, c]), float(ttft_s[i, c]),
                    ranges["thr"], ranges["tpot"],
                    float(objective), meets, verdict(ranges["tpot" if load.objective == "latency" else "thr"]),
                )
            )  # fmt: skip
    return result


def plain_options(deployment: Deployment, load: Load, plain: Baseline) -> list[Option]:
    """k = 0 at each load: no drafter in memory."""
    result = []
    batch, step_s, tok_s, tpot_s = (
        np.broadcast_to(v, (1, len(load.concurrency)))[0]
        for v in (plain.batch, plain.step.total_s, plain.throughput_tok_s, plain.tpot_s)
    )
    for c, users in enumerate(load.concurrency):
        waiting = max(0.0, users - batch[c] * min(deployment.dp, users))
        ttft = float(plain.prefill_s) + step_s[c] + waiting * (load.output_tokens or 0) / tok_s[c]
        meets = (load.max_tpot_s is None or tpot_s[c] <= load.max_tpot_s) and (
            load.max_ttft_s is None or ttft <= load.max_ttft_s
        )
        objective = 1.0 / tpot_s[c] if load.objective == "latency" else tok_s[c] * (meets or load.objective != "goodput")
        result.append(
            Option(
                users, NO_DRAFTER, 0, ONE, float(batch[c]), float(step_s[c]), 0.0, float(tok_s[c]), float(tpot_s[c]),
                float(ttft), ONE, ONE, float(objective), bool(meets), "not distinguishable",
            )
        )  # fmt: skip
    return result
