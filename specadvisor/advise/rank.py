"""From evaluated drafters to the best setting and the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specadvisor.acceptance import Survival
from specadvisor.advise.anchor import Anchor, Correction, correction
from specadvisor.advise.choose import Choice, choice_at, choose_k
from specadvisor.advise.evaluate import Baseline, Evaluation, admitted_speculating, baseline, evaluate, per_replica
from specadvisor.advise.gain import Gains, gains
from specadvisor.advise.idle import held_bytes, idle_cost_s
from specadvisor.advise.options import option
from specadvisor.advise.recommendation import NO_DRAFTER, Best, Curve, Load, Option, Schedule
from specadvisor.advise.schedule import make_schedule, schedule_loads
from specadvisor.drafters import Drafter
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray, Range
from specadvisor.step import Deployment, resident, target_step


def grid(
    deployment: Deployment,
    drafter: Drafter,
    survival: Survival,
    load: Load,
    loads: Sequence[int],
    plain: Baseline | None = None,
) -> Evaluation:
    """The drafter over (its draft lengths, ``loads``)."""
    k = np.asarray(drafter.allowed_k(), dtype=float)[:, None]
    users = np.asarray(loads, dtype=float)[None, :]
    return evaluate(
        deployment, drafter, survival, k, users, float(load.context), load.input_tokens, load.output_tokens, plain=plain
    )


def plain_grid(deployment: Deployment, load: Load, loads: Sequence[int]) -> Baseline:
    """Plain decoding at ``loads`` (second axis)."""
    users = np.asarray(loads, dtype=float)[None, :]
    return baseline(deployment, users, float(load.context), load.input_tokens, load.output_tokens)


def choices(
    found: Gains, evaluation: Evaluation, known: bool, reach: int | None, doubt_beyond: bool = False
) -> tuple[Choice, ...]:
    """The choice of k at each load; ``known``: the acceptance, or a speed-up of this drafter, was measured.

    ``reach``: the last position with a measured acceptance (``Curve.reach``); ``doubt_beyond`` as in ``choose_k``.
    """
    shape = np.shape(found.meets)
    gain = [np.broadcast_to(v, shape) for v in (found.gain.low, found.gain.mid, found.gain.high)]
    good = np.broadcast_to(found.gain.mid * evaluation.favourable, shape)
    return tuple(
        choose_k(
            evaluation.k.ravel(), Range(*(v[:, c] for v in gain)), acceptance_known=known, plain=float(found.plain[c]),
            favourable=good[:, c], reach=reach, doubt_beyond=doubt_beyond,
        )
        for c in range(shape[1])
    )  # fmt: skip


def anchored(
    deployment: Deployment, drafter: Drafter, survival: Survival, load: Load, anchors: Sequence[Anchor]
) -> Correction | None:
    """The correction that the user's measured points imply for this drafter; None without any."""
    mine = [a for a in anchors if not a.drafter or a.drafter == drafter.kind]
    if not mine:
        return None
    predicted: list[float] = []
    for anchor in mine:
        if anchor.k > drafter.k_max:
            raise InputError("anchor k", anchor.k, f"at most {drafter.k_max} draft tokens for {drafter.name}")
        at = evaluate(
            deployment, drafter, survival, float(anchor.k), anchor.concurrency, float(load.context), load.input_tokens,
            load.output_tokens,
        )  # fmt: skip
        of = at.throughput_speedup if anchor.quantity == "throughput" else at.tpot_speedup
        predicted.append(float(of.mid))
    return correction(mine, predicted)


def best_setting(load: Load, top: Curve | None, plain: tuple[Option, ...]) -> Best:
    """The best single k over all loads of the leading drafter ``top``."""
    if top is None or all(choice.k == 0 for choice in top.choices):
        return Best(NO_DRAFTER, 0, Range(1.0, 1.0, 1.0), plain)
    fixed = top.choices[0] if len(top.choices) == 1 else _over_loads(top)
    if fixed.k == 0:
        return Best(NO_DRAFTER, 0, fixed.gain, plain)
    same = tuple(option(load, top, top.row(fixed.k), column) for column in range(len(load.concurrency)))
    return Best(top.name, fixed.k, fixed.gain, same)


def _over_loads(curve: Curve) -> Choice:
    """One k for every load, by the geometric mean of its gains."""
    shape = np.broadcast_shapes(curve.evaluation.k.shape, curve.evaluation.concurrency.shape)

    def mean(values: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.log(np.maximum(np.broadcast_to(values, shape), 1e-9)).mean(axis=-1)))

    gain = Range(mean(curve.gain.low), mean(curve.gain.mid), mean(curve.gain.high))
    plain = float(np.exp(np.log(np.maximum(curve.gains.plain, 1e-9)).mean()))
    good = mean(curve.gain.mid * curve.evaluation.favourable)
    return choose_k(
        curve.evaluation.k.ravel(),
        gain,
        acceptance_known=curve.acceptance_known,
        plain=plain,
        favourable=good,
        reach=curve.reach,
        doubt_beyond=curve.drafter.lookup,
    )


def scheduled(curve: Curve, load: Load, schedule: Schedule) -> Curve:
    """``curve`` with the schedule's k as the choice at each stated load: one decision wherever it is shown."""
    ks = curve.evaluation.k.ravel().astype(int)
    shape = np.shape(curve.gains.meets)
    gain = [np.broadcast_to(v, shape) for v in (curve.gain.low, curve.gain.mid, curve.gain.high)]
    decided = []
    for column, (users, choice) in enumerate(zip(load.concurrency, curve.choices, strict=True)):
        k = schedule.k_at(users)
        same = k == choice.k or not k
        decided.append(choice if same else _moved(choice, k, ks, Range(*(v[:, column] for v in gain))))
    return replace(curve, choices=tuple(decided))


def _moved(choice: Choice, k: int, ks: FloatArray, gain: Range) -> Choice:
    """``choice`` at another ``k``, the one that its tier shares."""
    return choice_at(k, ks, gain, choice.plateau, choice.trial, choice.shares)


def schedule_of(deployment: Deployment, load: Load, curve: Curve, fix: Correction | None) -> Schedule:
    """Tiers from concurrency 1 to the largest stated load; a single stated load: that one."""
    several = len(load.concurrency) > 1
    loads = schedule_loads(max(load.concurrency), load.concurrency) if several else load.concurrency
    plain = plain_grid(deployment, load, loads)
    evaluation = grid(deployment, curve.drafter, curve.survival, load, loads, plain)
    found = gains(deployment, curve.drafter, load, evaluation, fix)
    known = curve.acceptance_known or fix is not None
    picked = choices(found, evaluation, known, curve.reach, curve.drafter.lookup)
    drafter = curve.drafter.on(deployment)
    users, replicas = per_replica(np.asarray(loads, dtype=float)[None, :], deployment.dp)
    context = np.asarray(float(load.context))
    batch = admitted_speculating(deployment, drafter, np.zeros(()), users, context)
    idle_s = idle_cost_s(deployment, drafter, batch, context)
    step_s = target_step(deployment, batch, 1.0, context).total_s + idle_s
    if load.objective == "latency":
        idle_gain = plain.tpot_s / (step_s + (batch - 1.0) * plain.prefill_per_token_s)
    else:
        idle_gain = replicas * batch / (step_s + batch * plain.prefill_per_token_s) / plain.throughput_tok_s * found.gpu_share
    shape = (1, len(loads))
    held = held_bytes(resident(deployment), resident(deployment, drafter))
    return make_schedule(
        curve.name, loads, picked, evaluation.k, found.gain, np.broadcast_to(idle_gain, shape)[0], held,
        np.broadcast_to(idle_s, shape)[0], load.concurrency, found.plain,
        curve.reach if curve.drafter.lookup else None,
    )  # fmt: skip
