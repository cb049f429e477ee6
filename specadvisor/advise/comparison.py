"""Guideline 5 as a table: what each drafter accepts, costs and needs; and the memory bill."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specadvisor.advise.bills import DrafterRow, MemoryBill
from specadvisor.advise.evaluate import admitted_speculating
from specadvisor.advise.recommendation import NO_DRAFTER, Curve, Load
from specadvisor.advise.standing import origin
from specadvisor.ranges import Range
from specadvisor.step import Deployment, admitted, resident


def drafter_row(deployment: Deployment, curve: Curve) -> DrafterRow:
    """One row, read at the best k of the lowest load (the smallest k where speculation does not pay there)."""
    drafter = curve.drafter.on(deployment)
    evaluation = curve.evaluation
    ks = evaluation.k.ravel().astype(int)
    row = int(np.flatnonzero(ks == max(curve.choices[0].k, ks[0]))[0])
    length = evaluation.acceptance_length
    shape = np.broadcast_shapes(evaluation.k.shape, evaluation.concurrency.shape)
    at = [float(np.broadcast_to(v, shape)[row, 0]) for v in (length.low, length.mid, length.high)]
    support = deployment.serving.supports(drafter.kind)
    version = f" >= {support.since}" if support.since else ""
    return DrafterRow(
        drafter=drafter.name,
        kind=drafter.kind,
        acceptance_length=Range(*at),
        acceptance_source=curve.survival.source,
        draft_share=float(np.broadcast_to(evaluation.draft_share, shape)[row, 0]),
        memory_bytes=drafter.resident_bytes,
        kv_bytes_per_token=drafter.kv_bytes_per_token,
        training="; ".join((drafter.facts.training_class, *drafter.facts.training)),
        operating=drafter.facts.operating,
        support="none: " + "; ".join(curve.missing) if curve.missing else f"{deployment.serving.id}{version}: {support.method}",
        availability=origin(curve),
        best_k=tuple(choice.k for choice in curve.choices),
        speedup=tuple(choice.gain for choice in curve.choices),
    )


def memory_bills(deployment: Deployment, load: Load, curves: Mapping[str, Curve]) -> tuple[MemoryBill, ...]:
    """One bill without a drafter, then those of each drafter at the smallest and the largest k it runs (1 where it is
    off everywhere); sequences of the load's context.
    """
    plain = resident(deployment)
    users = np.asarray(1e9)
    without = float(admitted(deployment, plain, users, float(load.context)))
    bills = [
        MemoryBill(
            NO_DRAFTER, 0, plain.total_bytes, plain.weight_bytes, 0.0, plain.reserve_bytes, 0.0, plain.kv_pool_bytes,
            plain.kv_pool_tokens, plain.kv_pool_tokens, without, without,
        )
    ]  # fmt: skip
    for curve in curves.values():
        drafter = curve.drafter.on(deployment)
        memory = resident(deployment, drafter)
        chosen = sorted({choice.k for choice in curve.choices if choice.k}) or [1]
        for k in sorted({chosen[0], chosen[-1]}):
            drafts = np.asarray(float(k))
            fits = float(admitted_speculating(deployment, drafter, drafts, users, np.asarray(float(load.context))))
            bills.append(
                MemoryBill(
                    drafter.name, k, memory.total_bytes, memory.weight_bytes, memory.drafter_bytes, plain.reserve_bytes,
                    memory.reserve_bytes - plain.reserve_bytes, memory.kv_pool_bytes, memory.kv_pool_tokens,
                    plain.kv_pool_tokens, fits, without,
                )
            )  # fmt: skip
    return tuple(bills)
