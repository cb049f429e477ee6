"""Puts a recommendation together: evaluate every candidate, choose, explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.advise.anchor import MEASUREMENT_SIGMA, Anchor, Correction, read_anchors
from specadvisor.advise.candidates import Candidates
from specadvisor.advise.caveats import caveats
from specadvisor.advise.comparison import drafter_row, memory_bills
from specadvisor.advise.evaluate import Baseline
from specadvisor.advise.fits import that_fit
from specadvisor.advise.gain import gains
from specadvisor.advise.guidelines import GuidelineTrace, trace
from specadvisor.advise.headline import headline
from specadvisor.advise.measure import measurement_plan
from specadvisor.advise.options import plain_options
from specadvisor.advise.rank import anchored, best_setting, choices, grid, plain_grid, schedule_of, scheduled
from specadvisor.advise.recommendation import NO_DRAFTER, Curve, Load, Recommendation, Schedule, Tier
from specadvisor.advise.standing import leader, leaders
from specadvisor.advise.uncertainty import profile_states
from specadvisor.drafters import Drafter
from specadvisor.ranges import Range
from specadvisor.step import Deployment

if TYPE_CHECKING:
    from specadvisor.advise.break_even import BreakEven


def recommend(
    deployment: Deployment,
    load: Load,
    found: Candidates,
    anchors: Sequence[str | Anchor] = (),
    gpu_price: float | None = None,
    train_gpu_hours: float | None = None,
    command: str = "specadvisor recommend ...",
) -> Recommendation:
    """The answer for ``load``; ``command`` is what the measurement plan tells the user to run again."""
    found = that_fit(deployment, load, found)
    points = read_anchors(anchors, [d.kind for d in found.drafters])
    plain = plain_grid(deployment, load, load.concurrency)
    curves: dict[str, Curve] = {}
    fixes: dict[str, Correction] = {}
    for drafter in found.drafters:
        fix = anchored(deployment, drafter, found.survival[drafter.name], load, points)
        if fix:
            fixes[drafter.name] = fix
        curves[drafter.name] = _curve(deployment, load, found, drafter, plain, fix)
    plain_at = plain_options(deployment, load, plain)
    top = leader(curves)
    fix = fixes.get(top.name) if top else None
    schedule = schedule_of(deployment, load, top, fix) if top else _never(load)
    if top:
        top = curves[top.name] = scheduled(top, load, schedule)
    plan = _NOTHING_TO_RUN if top and top.missing else measurement_plan(deployment, load, top, command, fix, curves)
    best = best_setting(load, top, plain_at)
    ahead = leaders(curves, load.concurrency)
    return Recommendation(
        deployment=deployment,
        load=load,
        headline=(*_disagreement(fix), *headline(load, schedule, curves, plain_at, ahead)),
        best=best,
        plain=plain_at,
        schedule=schedule,
        guidelines=_traces(deployment, top),
        drafters=tuple(drafter_row(deployment, curve) for curve in curves.values()),
        memory=memory_bills(deployment, load, curves),
        warnings=(*deployment.model.warnings, *(caveats(deployment, load, top) if top else ())),
        assumptions=_assumptions(deployment, load, found, top),
        measurement_plan=plan,
        excluded=found.excluded,
        break_even=_break_even(deployment, load, plain, curves, gpu_price, train_gpu_hours),
        anchors=tuple(text for name, fix in fixes.items() for text in _anchor_notes(name, fix)),
        leaders=ahead,
        curves=curves,
    )


def _curve(
    deployment: Deployment, load: Load, found: Candidates, drafter: Drafter, plain: Baseline, fix: Correction | None
) -> Curve:
    survival = found.survival[drafter.name]
    evaluation = grid(deployment, drafter, survival, load, load.concurrency, plain)
    gained = gains(deployment, drafter, load, evaluation, fix)
    missing = drafter.not_shipped(deployment.serving)
    bare = Curve(drafter, survival, survival.known, evaluation, gained, (), missing)
    known = survival.known or fix is not None
    return replace(bare, choices=choices(gained, evaluation, known, bare.reach, drafter.lookup))


def _traces(deployment: Deployment, curve: Curve | None) -> tuple[GuidelineTrace, ...]:
    if curve is None:
        return ()
    return tuple(
        trace(deployment, curve.drafter, curve.survival, curve.evaluation, column, choice.k)
        for column, choice in enumerate(curve.choices)
    )


def _disagreement(fix: Correction | None) -> tuple[str, ...]:
    """The first thing to hear where measured points contradict each other."""
    if fix is None or not fix.contradictions:
        return ()
    return ("The measured points contradict each other (see Anchors): find out which one is right before you follow this.",)


_NOTHING_TO_RUN = (
    "nothing here: no measurement on this engine can decide about what it cannot run; measure the same drafter without it, or "
    "the published code",
)


def _never(load: Load) -> Schedule:
    """No drafter can run here: plain decoding at every load."""
    one = Range(1.0, 1.0, 1.0)
    tier = Tier(1, max(load.concurrency), 0, 0, one, one, 0.0, 0.0, 1.0)
    return Schedule(NO_DRAFTER, (tier,), 1)


def _machine(deployment: Deployment) -> str:
    return "the processor" if deployment.gpu.family == "cpu" else f"{deployment.ranks} GPU(s)"


def _assumptions(deployment: Deployment, load: Load, found: Candidates, top: Curve | None) -> tuple[str, ...]:
    serving = deployment.serving
    lines = [
        f"{serving.id} {serving.version}, one replica on {_machine(deployment)}, dp {deployment.dp}, "
        f"KV cache {deployment.kv_format}"
    ]
    lines += serving.notes
    if deployment.gpu.unified_memory:
        lines.append(
            f"{deployment.gpu.id} shares its memory with the CPU: what the system and other programs hold is not taken off "
            "the KV pool; pass the pool that the engine prints (--kv-pool)"
        )
    if load.input_tokens is None or load.output_tokens is None:
        lines.append(
            f"prompt or output length not stated: {load.context} keys in a decode step, no prefill term (throughput gains are "
            "smaller with long prompts)"
        )
    else:
        lines.append(
            f"closed loop: each request reads {load.input_tokens} tokens and writes {load.output_tokens}, "
            f"{load.context} keys in a mean step; Poisson arrivals are a different question"
        )
    lines.append(f"workload {load.workload}, temperature {load.temperature:g}, objective {load.objective}")
    lines.append(profile_states(deployment))
    if top is not None:
        lines.append(f"acceptance of {top.name}: {top.survival.source}")
        lines += top.survival.notes
        lines += top.drafter.assumptions
    return (*lines, *found.notes)


def _break_even(
    deployment: Deployment, load: Load, plain: Baseline, curves: Mapping[str, Curve], price: float | None, hours: float | None
) -> BreakEven | None:
    if price is None or hours is None:
        return None
    from specadvisor.advise.break_even import break_even

    tok_s = np.broadcast_to(plain.throughput_tok_s, (1, len(load.concurrency)))[0]
    return break_even(curves, load, tok_s, deployment.ranks * deployment.dp, price, hours)


def _anchor_notes(name: str, fix: Correction) -> list[str]:
    """What was measured against what was predicted, and how much of the difference is believed elsewhere."""
    notes = []
    for anchor, log in zip(fix.anchors, fix.logs, strict=True):
        predicted, asked = anchor.speedup / float(np.exp(log)), float(np.exp(log))
        notes.append(
            f"{name}: {anchor.label}, predicted {predicted:.2f}x (x{asked:.2f}). Speed-ups near this load are multiplied by "
            f"{float(np.exp(fix.log_factor(anchor.concurrency))):.2f}: errors of one deployment are alike, not equal, and a "
            f"measured ratio has a spread of {MEASUREMENT_SIGMA:.0%} itself"
        )
    return notes + list(fix.contradictions)
