"""The measurements that would make the answer surer, with the commands that use them.

A command runs as it is printed: in place of what is to be measured it has the values that are believed now, and an
acceptance replaces what the command said of that drafter before.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import numpy as np

from specadvisor.advise.acceptance_input import split_drafter
from specadvisor.advise.anchor import Correction
from specadvisor.advise.recommendation import Curve, Load
from specadvisor.advise.standing import TO_BE_TRAINED, availability, available
from specadvisor.errors import InputError
from specadvisor.step import Deployment

YOURS = "then, with your own numbers after {}: "


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
    again = YOURS.format("--acceptance") + with_acceptance(command, curve.drafter.kind, form)
    absent = not curve.acceptance_known and availability(curve.drafter) == TO_BE_TRAINED
    once = f"once {curve.name} is trained: " if absent else ""
    plan: list[str] = []
    if other := available(curves, curve):
        seen, at_hand = _counters(engine, other, several)
        plan.append(
            f"before you train {curve.name}: run {other.name} ({availability(other.drafter)}) with k = {_drafts(other)} on 200 "
            f"of your own prompts, read {seen}, {YOURS.format('--acceptance')}"
            f"{with_acceptance(command, other.drafter.kind, at_hand)}"
        )
    if not curve.acceptance_known:
        plan.append(f"{once}run {curve.name} with k = {drafts} on 200 of your own prompts, read {counter}, {again}")
    elif _share_of_acceptance(curve, k) > 0.5:
        plan.append(f"acceptance makes most of the interval: more prompts at k = {drafts}, read {counter}, {again}")
    if correction is None:
        users = load.concurrency[0]
        named = f",drafter={curve.drafter.kind}" if several else ""
        ratio = float(np.broadcast_to(curve.gains.throughput_speedup.mid, curve.gains.meets.shape)[curve.row(k), 0])
        plan.append(
            f"{once}measure throughput at concurrency {users} without speculation and with k = {k} (3 boots each, real "
            f"prompts, graphs on in both), {YOURS.format('speedup=')}{command} --anchor "
            f"concurrency={users},k={k},speedup={max(ratio, 0.01):.2f}{named}"
        )
    return tuple(plan)


def _drafts(curve: Curve) -> int:
    """Draft tokens to measure acceptance with: beyond the chosen k, so that a longer one can be judged too."""
    longest = max(2 * max(curve.choices[0].k, 1), 5)
    return max(k for k in curve.drafter.allowed_k() if k <= longest)


def _share_of_acceptance(curve: Curve, k: int) -> float:
    """Log width of the acceptance length at ``k`` and the lowest load over that of the gain."""
    row, length, gain = curve.row(k), curve.evaluation.acceptance_length, curve.gain
    low, high, worst, best = (
        float(np.broadcast_to(v, curve.gains.meets.shape)[row, 0]) for v in (length.low, length.high, gain.low, gain.high)
    )
    return float(np.log(high / low) / np.log(best / worst)) if best > worst > 0 else 0.0


def _counters(engine: str, curve: Curve, several: bool) -> tuple[str, str]:
    """(what the engine shows, how it is given to ``--acceptance``): with the drafter's kind where several are compared."""
    drafts, survival = _drafts(curve), curve.survival
    counter, form = {
        "vllm": ("vllm:spec_decode_num_accepted_tokens_per_pos over vllm:spec_decode_num_drafts at /metrics", "cumulative"),
        "sglang": ("the mean tokens per round (spec_accept_length in meta_info or the server log)", "al"),
        "tensorrt_llm": ("the acceptance rate in the request's performance metrics", "rate"),
        "llama_cpp": ("the draft acceptance rate in the server log", "rate"),
    }.get(engine, ("the mean tokens per round from the engine's counters", "al"))
    numbers = {
        "cumulative": ",".join(f"{s:.2f}" for s in survival.extended(drafts)),
        "al": f"{survival.acceptance_length(drafts):.2f}@{drafts}",
        "rate": f"{survival.rate(drafts):.3f}@{drafts}",
    }[form]
    return counter, f"{curve.drafter.kind}=" * several + f"{form}:{numbers}"


def with_acceptance(command: str, kind: str, statement: str) -> str:
    """``command`` with ``statement`` in place of what it says of the acceptance of ``kind``."""
    try:
        words = shlex.split(command)
    except ValueError:
        return f"{command} --acceptance {shlex.quote(statement)}"
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        stated = next(
            (word.removeprefix(flag) for flag in ("--acceptance=", "-a") if word.startswith(flag) and word != flag), None
        )
        if word in ("-a", "--acceptance"):
            stated = next(rest, "")
            if not _is_of(kind, stated):
                kept += [word, stated]
        elif stated is None or not _is_of(kind, stated):
            kept.append(word)
    return shlex.join([*kept, "--acceptance", statement])


def _is_of(kind: str, stated: str) -> bool:
    """Whether an acceptance on the command line is that of ``kind``; one without a name is of the only drafter."""
    try:
        return split_drafter(stated)[0] in ("", kind)
    except InputError:
        return False
