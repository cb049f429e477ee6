"""The measurements that would make the answer surer, with the commands that use them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specadvisor.advise.anchor import Correction
from specadvisor.advise.recommendation import Curve, Load
from specadvisor.advise.standing import TO_BE_TRAINED, availability, available
from specadvisor.step import Deployment


def measurement_plan(
    deployment: Deployment,
    load: Load,
    curve: Curve | None,
    command: str,
    correction: Correction | None,
    curves: Mapping[str, Curve],
) -> tuple[str, ...]:
    """The one or two numbers that would decide, with the command that uses them; of a drafter that has to be trained only
    once it is.
    """
    if curve is None:
        return ()
    engine, several = deployment.serving.id, len({c.drafter.kind for c in curves.values()}) > 1
    k, drafts = max(curve.choices[0].k, 1), _drafts(curve)
    counter, form = _counters(engine, curve, several)
    absent = not curve.acceptance_known and availability(curve.drafter) == TO_BE_TRAINED
    once = f"once {curve.name} is trained: " if absent else ""
    plan: list[str] = []
    if other := available(curves, curve):
        seen, at_hand = _counters(engine, other, several)
        plan.append(
            f"before you train {curve.name}: run {other.name} ({availability(other.drafter)}) with k = {_drafts(other)} on 200 "
            f"of your own prompts, read {seen}, then: {command} --acceptance {at_hand}"
        )
    if not curve.acceptance_known:
        plan.append(
            f"{once}run {curve.name} with k = {drafts} on 200 of your own prompts, read {counter}, then: {command} "
            f"--acceptance {form}"
        )
    elif _share_of_acceptance(curve, k) > 0.5:
        plan.append(f"acceptance makes most of the interval: more prompts at k = {drafts}, then {command} --acceptance {form}")
    if correction is None:
        users = load.concurrency[0]
        named = f",drafter={curve.drafter.kind}" if several else ""
        plan.append(
            f"{once}measure throughput at concurrency {users} without speculation and with k = {k} (3 boots each, real "
            f"prompts, graphs on in both), then: {command} --anchor concurrency={users},k={k},speedup=RATIO{named}"
        )
    return tuple(plan)


def _drafts(curve: Curve) -> int:
    """Draft tokens to measure acceptance with: beyond the chosen k, so that a longer one can be judged too."""
    return min(curve.drafter.k_max, max(2 * max(curve.choices[0].k, 1), 5))


def _share_of_acceptance(curve: Curve, k: int) -> float:
    """Log width of the acceptance length at ``k`` and the lowest load over that of the gain."""
    row, length, gain = curve.row(k), curve.evaluation.acceptance_length, curve.gain
    low, high, worst, best = (
        float(np.broadcast_to(v, curve.gains.meets.shape)[row, 0]) for v in (length.low, length.high, gain.low, gain.high)
    )
    return float(np.log(high / low) / np.log(best / worst)) if best > worst > 0 else 0.0


def _counters(engine: str, curve: Curve, several: bool) -> tuple[str, str]:
    """(what the engine shows, how it is given to ``--acceptance``): with the drafter's kind where several are compared."""
    counter, form = {
        "vllm": (
            "vllm:spec_decode_num_accepted_tokens_per_pos over vllm:spec_decode_num_drafts at /metrics", "cumulative:S1,S2,...",
        ),
        "sglang": ("the mean tokens per round (spec_accept_length in meta_info or the server log)", "al:AL@k"),
        "tensorrt_llm": ("the acceptance rate in the request's performance metrics", "rate:RATE@k"),
        "llama_cpp": ("the draft acceptance rate in the server log", "rate:RATE@k"),
    }.get(engine, ("the mean tokens per round from the engine's counters", "al:AL@k"))  # fmt: skip
    return counter, (f"{curve.drafter.kind}=" if several else "") + form.replace("@k", f"@{_drafts(curve)}")
