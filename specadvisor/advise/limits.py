"""What a user should hear about limits: running requests, captured graphs, request length, kernels that pay per row."""

from __future__ import annotations

import numpy as np

from specadvisor.advise.case import Case
from specadvisor.advise.evaluate import per_replica
from specadvisor.kernels.parameters import find_entry


def past_graphs(case: Case) -> str | None:
    """Verified tokens beyond the largest graph that the engine captures by default."""
    deployment = case.deployment
    if not deployment.graphs:
        return "Without CUDA graphs every kernel is launched by the host: gains measured eagerly do not carry over to graphs."
    batch, query = case.at_choice(case.curve.evaluation.batch), case.at_choice(case.curve.evaluation.verified_tokens)
    default = deployment.serving.tuned(0)
    beyond = batch * query > default.graph_ceiling(deployment.gpu, batch, query, tp=deployment.tp)
    if not beyond.any():
        return None
    first = case.load.concurrency[int(np.argmax(beyond))]
    text = f"From concurrency {first} on the verified tokens exceed the largest graph that {default.id} captures by default: "
    if deployment.serving.tuned_requests:
        return text + "computed with the capture size raised, as `specadvisor flags` writes it; without that, eager steps."
    return text + "raise the capture size or expect eager steps."


def queueing(case: Case) -> str | None:
    """Requests that wait for memory or for the engine's limit."""
    batch = case.at_choice(case.curve.evaluation.batch)
    need, _ = per_replica(np.asarray(case.load.concurrency, dtype=float), case.deployment.dp)
    waits = np.flatnonzero(batch < need)
    if not waits.size:
        return None
    plain = np.broadcast_to(case.curve.evaluation.baseline_batch, (1, need.size))[0]
    most = f"{plain[-1]:.0f} do without a drafter" if plain[-1] < need[-1] else "all of them do without a drafter"
    replica = " on a replica" if case.deployment.dp > 1 else ""
    return (
        f"From concurrency {case.load.concurrency[int(waits[0])]} on requests queue with {case.drafter.name} loaded: at "
        f"{case.load.concurrency[-1]}, {batch[-1]:.0f} run at once{replica}; {most}. TPOT can then improve while "
        "throughput falls."
    )


def admission_default(case: Case) -> str | None:
    """A default limit on running requests below the load."""
    serving, gpu = case.deployment.serving, case.deployment.gpu
    limit = serving.tuned(0).max_requests(gpu, True)
    users = max(case.load.concurrency)
    if users / case.deployment.dp <= limit:
        return None
    text = f"{serving.id} runs {limit} requests at once by default when speculating: "
    if serving.tuned_requests:
        return text + f"computed with {serving.tuned_requests}, as `specadvisor flags` starts it; otherwise the rest queues."
    return text + f"at concurrency {users} the rest queues unless you raise it."


def beyond_context(case: Case) -> str | None:
    """A request longer than the model's own limit."""
    limit = case.deployment.model.max_context
    if not limit or case.load.request_tokens <= limit:
        return None
    return (
        f"A request of {case.load.request_tokens:,} tokens is longer than the model's own limit of {limit:,}: engines "
        "refuse it unless its rotary embedding is scaled."
    )


def rows_cost(case: Case) -> str | None:
    """Kernels that unpack low-bit weights once per row: verification is not free, and plain batches pay it too."""
    deployment = case.deployment
    gemm = find_entry(deployment.gpu, "gemm", deployment.model.weight_format, deployment.serving.id).parameters
    if not gemm.get("row_cycles"):
        return None
    rows, factor = gemm["row_limit"], gemm["wide_factor"]
    beyond = "more rows cost no more" if factor == 1.0 else f"another kernel runs at {factor:.2f} times the one-row time"
    if deployment.gpu.family == "cpu":
        return (
            "numpy's BLAS, which the calibration measured, packs the weights anew for more than one row: a second row costs "
            f"{factor:.1f} times a single one. An engine that keeps its weights packed pays less for verification."
        )
    text = (
        f"{deployment.model.weight_format} kernels of {deployment.serving.id} unpack the weights once per row, up to "
        f"{rows:.0f} rows; beyond, {beyond}."
    )
    gains = [choice.gain.mid for choice in case.curve.choices]
    if max(gains) > 1.05 * gains[0]:
        text += " A plain batch pays for its rows too, so the gain can be larger there than at the lowest load."
    return text
