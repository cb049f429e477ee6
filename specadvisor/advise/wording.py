"""The answer in sentences: what to do, how sure, and which measurement would make it surer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specadvisor.advise.anchor import Correction
from specadvisor.advise.recommendation import NO_DRAFTER, Best, Curve, Load, Schedule, Tier
from specadvisor.drafters import Drafter
from specadvisor.drafters.facts import TRAINING_CLASSES
from specadvisor.ranges import Range
from specadvisor.step import Deployment

NO_FILE_NEEDED = ("ngram", "suffix", "rest", "lookahead", "token_recycling", "mtp")


def times(value: Range) -> str:
    """``1.52x (1.31-1.74)``."""
    return f"{value.mid:.2f}x ({value.low:.2f}-{value.high:.2f})"


def loads(low: int, high: int) -> str:
    """``8`` or ``1-16``."""
    return f"{low}" if low == high else f"{low}-{high}"


def headline(load: Load, best: Best, schedule: Schedule, curves: Mapping[str, Curve], plan: Sequence[str]) -> tuple[str, ...]:
    """The first lines of the answer; where acceptance is unknown that comes first."""
    lines: list[str] = []
    curve = curves.get(schedule.drafter)
    if curve is not None and not curve.acceptance_known:
        lines.append(
            f"Acceptance of {schedule.drafter} is not measured: this rests on a catalogue value. Measure it first: {plan[0]}"
        )
    lines.append(_verdict(load, best, schedule, curve))
    if best.drafter != NO_DRAFTER and curve is not None and _to_be_trained(curve.drafter):
        lines.append(
            f"{schedule.drafter} needs a drafter trained for this very model; if none is published, training takes "
            f"{TRAINING_CLASSES[curve.drafter.facts.training_class]}."
        )
    if rival := _rival(best, curves, load):
        lines.append(rival)
    if curve is not None and curve.acceptance_known and any(not c.acceptance_known for c in curves.values()):
        lines.append("Drafters whose acceptance is only a catalogue value are listed below, not chosen.")
    return tuple(lines)


def _to_be_trained(drafter: Drafter) -> bool:
    """Whether the family needs training for each target and the user named no file of one."""
    facts = drafter.facts
    return drafter.kind not in NO_FILE_NEEDED and facts.training_class != "none" and not drafter.from_file


def _verdict(load: Load, best: Best, schedule: Schedule, curve: Curve | None) -> str:
    if curve is None:
        return "Do not speculate: no drafter can run here (the reasons are under Left out)."
    if all(tier.k == 0 for tier in schedule.tiers):
        return f"Do not speculate at concurrency {loads(min(load.concurrency), max(load.concurrency))}: no drafter gains here."
    what = {"throughput": "throughput", "latency": "TPOT", "goodput": "goodput"}[load.objective]
    if len(load.concurrency) == 1:
        choice = curve.choices[0]
        if choice.k == 0:
            return f"Do not speculate at concurrency {load.concurrency[0]}: no drafter gains here."
        sure = "" if choice.verdict == "gain" else ", not distinguishable from no speculation"
        if not curve.acceptance_known and choice.gain.mid < 1.0:
            sure = ": only with better acceptance than usual does it pay, so measure before switching it on"
        text = f"Run {schedule.drafter} with k = {choice.k}: {what} {times(choice.gain)}{sure}"
        if choice.cautious not in (choice.k, 0):
            text += f"; k = {choice.cautious} is within 2% of the best and the cautious choice"
        return text + "."
    parts = [f"{loads(t.low, t.high)}: k = {t.k}" + (f", {_fall(t)}" if t.k else "") for t in schedule.tiers]
    text = f"Run {schedule.drafter} by load, {what} over plain decoding at concurrency " + "; ".join(parts) + "."
    if schedule.crossover is not None:
        text += f" Speculation stops paying at concurrency {schedule.crossover}."
    return text


def _fall(tier: Tier) -> str:
    """``1.97x to 1.82x``: the gain at the two ends of a tier."""
    low, high = f"{tier.at_low.mid:.2f}x", f"{tier.at_high.mid:.2f}x"
    return low if low == high else f"{low} to {high}"


def _rival(best: Best, curves: Mapping[str, Curve], load: Load) -> str:
    """Says so where another drafter cannot be told from the best one at the lowest load."""
    mine = curves.get(best.drafter)
    others = [c for c in curves.values() if c.name != best.drafter and c.choices[0].k]
    if mine is None or not others or not mine.choices[0].k:
        return ""
    other = max(others, key=lambda c: c.choices[0].gain.mid)
    first, second = mine.choices[0].gain, other.choices[0].gain
    if second.high < first.mid or second.low > first.mid:
        return ""
    return (
        f"{best.drafter} and {other.name} are not distinguishable at concurrency {load.concurrency[0]}: "
        f"{times(first)} and {times(second)}."
    )


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
        plan.append(
            f"acceptance makes most of the interval: more prompts at k = {k_max}, then {command} --acceptance {form}"
        )
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
