"""Numbers in sentences, and the measurement that would make the answer surer."""

from __future__ import annotations

import numpy as np

from specadvisor.advise.anchor import Correction
from specadvisor.advise.recommendation import Curve, Load
from specadvisor.ranges import Range
from specadvisor.step import Deployment


def times(value: Range) -> str:
    """``1.52x (1.31-1.74)``."""
    return f"{value.mid:.2f}x ({value.low:.2f}-{value.high:.2f})"


def loads(low: int, high: int) -> str:
    """``8`` or ``1-16``."""
    return f"{low}" if low == high else f"{low}-{high}"


def measurement_plan(
    deployment: Deployment, load: Load, curve: Curve | None, command: str, correction: Correction | None
) -> tuple[str, ...]:
    """The one or two numbers that would decide, with the command that uses them."""
    if curve is None:
        return ()
    column = 0
    k = max(curve.choices[column].k, 1)
    row = int(np.flatnonzero(curve.evaluation.k.ravel() == k)[0])
    length = curve.evaluation.acceptance_length
    at = [float(np.broadcast_to(v, curve.gain.mid.shape)[row, column]) for v in (length.low, length.high)]
    total = [float(np.broadcast_to(v, curve.gain.mid.shape)[row, column]) for v in (curve.gain.low, curve.gain.high)]
    from_acceptance = np.log(at[1] / at[0]) / np.log(total[1] / total[0]) if total[1] > total[0] > 0 else 0.0
    plan: list[str] = []
    k_max = min(curve.drafter.k_max, max(2 * k, 5))
    counter, form = _counters(deployment.serving.id)
    form = form.replace("@k", f"@{k_max}")
    if not curve.acceptance_known:
        plan.append(
            f"run {curve.name} with k = {k_max} on 200 of your own prompts, read {counter}, then: {command} --acceptance {form}"
        )
    elif from_acceptance > 0.5:
        plan.append(f"acceptance makes most of the interval: more prompts at k = {k_max}, then {command} --acceptance {form}")
    if correction is None:
        users = load.concurrency[0]
        plan.append(
            f"measure throughput at concurrency {users} without speculation and with k = {k} (3 boots each, real prompts, "
            f"graphs on in both), then: {command} --anchor concurrency={users},k={k},speedup=RATIO"
        )
    return tuple(plan)


def _counters(engine: str) -> tuple[str, str]:
    """(what the engine shows, how it is given to ``--acceptance``)."""
    return {
        "vllm": (
            "vllm:spec_decode_num_accepted_tokens_per_pos over vllm:spec_decode_num_drafts at /metrics", "cumulative:S1,S2,...",
        ),
        "sglang": ("the mean tokens per round (spec_accept_length in meta_info or the server log)", "al:AL@k"),
        "tensorrt_llm": ("the acceptance rate in the request's performance metrics", "rate:RATE@k"),
        "llama_cpp": ("the draft acceptance rate in the server log", "rate:RATE@k"),
    }.get(engine, ("the mean tokens per round from the engine's counters", "al:AL@k"))  # fmt: skip
