"""A recommendation as an engine-neutral launch plan."""

from __future__ import annotations

from specadvisor.advise.recommendation import NO_DRAFTER, Load, Recommendation
from specadvisor.drafters.dspark import DSpark
from specadvisor.engines import LaunchPlan
from specadvisor.engines.plan import MODEL
from specadvisor.model import Architecture, load_model
from specadvisor.model.sources import hub_id


def launch_plan(recommendation: Recommendation, model: str = "", drafter_path: str | None = None) -> LaunchPlan:
    """What to start: the best drafter with its schedule (by requests on one replica), or plain decoding.

    A server with the drafter loaded runs each tier's ``deployed_k``; the plan's own k, for engines that take no schedule, is
    the best single one. ``model``: what the engine is given to serve; else the id on the hub where one is known, or a
    placeholder.
    """
    deployment, schedule = recommendation.deployment, recommendation.schedule
    largest = -(-max(recommendation.load.concurrency) // deployment.dp)
    common = {
        "model": model or _checkpoint(deployment.model),
        "model_is": f"{deployment.model.name} in {deployment.model.weight_format}",
        "concurrency_max": largest, "gpu": deployment.gpu, "tp": deployment.tp,
        "dp": deployment.dp, "version": deployment.serving.version, "request_tokens": _request_tokens(recommendation.load),
    }  # fmt: skip
    curve = recommendation.curves.get(schedule.drafter)
    common["foreign_vocabulary"] = curve is not None and not curve.drafter.shares_vocabulary
    if curve is None or schedule.drafter == NO_DRAFTER or all(tier.k == 0 for tier in schedule.tiers):
        return LaunchPlan(kind=NO_DRAFTER, k=0, **common)  # type: ignore[arg-type]
    common["tree"], common["modifiers"] = curve.drafter.tree, curve.drafter.modifiers
    common["bundled"] = isinstance(curve.drafter, DSpark) and curve.drafter.bundled
    if len(recommendation.load.concurrency) == 1:
        return LaunchPlan(curve.drafter.kind, curve.choices[0].k, drafter_path, **common)  # type: ignore[arg-type]
    tiers: list[tuple[int, int, int]] = []
    first = 1
    for tier in schedule.tiers:
        last = max(first, tier.high // deployment.dp)
        tiers.append((first, last, tier.deployed_k))
        first = last + 1
    scheduled = {k for *_, k in tiers}
    k = scheduled.pop() if len(scheduled) == 1 else recommendation.best.k or max(t.k for t in schedule.tiers)
    return LaunchPlan(curve.drafter.kind, k, drafter_path, schedule=tuple(tiers), **common)  # type: ignore[arg-type]


def _checkpoint(model: Architecture) -> str:
    """What a server can load: the hub id of a model as published; re-quantised ones are other checkpoints."""
    if (known := hub_id(model.name)) and load_model(model.name).weight_format == model.weight_format:
        return known
    return model.name if model.name.count("/") == 1 else MODEL


def _request_tokens(load: Load) -> int:
    """Prompt and output of one request, at least the keys that a step sees."""
    return max((load.input_tokens or 0) + (load.output_tokens or 0), load.context)
