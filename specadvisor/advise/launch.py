"""A recommendation as an engine-neutral launch plan."""

from __future__ import annotations

from specadvisor.advise.recommendation import NO_DRAFTER, Load, Recommendation
from specadvisor.engines import LaunchPlan


def launch_plan(recommendation: Recommendation, model: str = "", drafter_path: str | None = None) -> LaunchPlan:
    """What to start: the best drafter with its schedule (by requests on one replica), or plain decoding.

    A server with the drafter loaded runs each tier's ``deployed_k``; the plan's own k, for engines that take no schedule, is
    the best single one. ``model``: what the engine is given to serve.
    """
    deployment, schedule = recommendation.deployment, recommendation.schedule
    largest = -(-max(recommendation.load.concurrency) // deployment.dp)
    common = {
        "model": model or deployment.model.name, "concurrency_max": largest, "gpu": deployment.gpu, "tp": deployment.tp,
        "dp": deployment.dp, "version": deployment.serving.version, "request_tokens": _request_tokens(recommendation.load),
    }  # fmt: skip
    curve = recommendation.curves.get(schedule.drafter)
    common["foreign_vocabulary"] = curve is not None and not curve.drafter.shares_vocabulary
    if curve is None or schedule.drafter == NO_DRAFTER or all(tier.k == 0 for tier in schedule.tiers):
        return LaunchPlan(kind=NO_DRAFTER, k=0, **common)  # type: ignore[arg-type]
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


def _request_tokens(load: Load) -> int:
    """Prompt and output of one request, at least the keys that a step sees."""
    return max((load.input_tokens or 0) + (load.output_tokens or 0), load.context)
