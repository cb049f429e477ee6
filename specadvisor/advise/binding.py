"""Which guideline ends the number of draft tokens at one load."""

from __future__ import annotations

import numpy as np

from specadvisor.advise.choose import PLATEAU
from specadvisor.advise.point import Point

# Share of a decode step from which attention, not the matrices, sets the pace (our threshold: none is published).
ATTENTION_LEADS = 0.5
# Gain of one more draft token below which acceptance, not time, ends the drafting.
NEGLIGIBLE_GAIN = 0.02


def binding_guideline(at: Point) -> tuple[int, str]:
    """Which guideline ends k where it is: the one behind most of what the next draft token costs; 0 while that pays."""
    now = 0 if at.index is None else at.index + 1
    gains = np.concatenate(([1.0], at.speedup))
    best = int(gains.argmax())
    if now == best == 0 and at.speedup.max() / at.gpu_share > 1.0 + PLATEAU:
        whole = f"{at.speedup.max() / at.gpu_share:.2f}x on {1.0 / at.gpu_share:.3g} times the GPUs"
        return 5, f"the GPUs that only draft are worth less than more replicas: {whole}"
    if now > best and gains[now] < (1.0 - PLATEAU) * gains[best]:
        number, because = _next_token(at, best)
        return number, f"{gains[now]:.2f}x at k = {at.k} is past the best, {gains[best]:.2f}x at k = {_k(at, best)}: {because}"
    return _next_token(at, now)


def _k(at: Point, now: int) -> int:
    return int(at.ks[now - 1]) if now else 0


def _next_token(at: Point, now: int) -> tuple[int, str]:
    """What ends k at position ``now`` of (0, ``at.ks``)."""
    if now >= at.ks.size:
        return 5, f"the drafter proposes no more than k = {at.ks[-1]}"
    nxt = now
    gain = float(at.lengths[now + 1] / at.lengths[now] - 1.0)
    batch = float(at.batch[now - 1]) if now else at.base_batch
    fewer = float(at.batch[nxt]) / batch
    equal = float(at.lengths[now + 1] / at.lengths[now] * at.times_s[now] / at.times_s[now + 1])
    if fewer < 1.0 and equal > 1.0:
        reason = f"rounds alone would still gain at k = {at.ks[nxt]}, but the KV pool then runs {at.batch[nxt]:.0f} requests"
        return 1, reason + f" instead of {batch:.0f}"
    cost = float(at.times_s[now + 1] / at.times_s[now] - 1.0)
    if gain > cost and fewer >= 1.0:
        speedups = np.concatenate(([1.0], at.speedup))[now:]
        ahead = float(speedups.max() / speedups[0] - 1.0)
        if ahead <= PLATEAU:
            return (
                0,
                f"nothing binds: more than k = {_k(at, now)} brings at most {ahead:.1%}, less than the noise of {PLATEAU:.0%}",
            )
        return 0, f"nothing binds yet: k = {at.ks[nxt]} brings {gain:.1%} and costs {cost:.1%}"
    growth = _growth(at, now)
    name, seconds = max(growth.items(), key=lambda item: item[1])
    if gain < NEGLIGIBLE_GAIN and seconds / at.times_s[now] < NEGLIGIBLE_GAIN:
        return 5, f"position {at.ks[nxt]} is accepted too rarely: it adds {gain:.1%} to AL"
    number = {"draft": 4, "attention": 3 if now and at.base.get("attention", 0) / at.base_s > ATTENTION_LEADS else 2}.get(
        name, 1
    )
    number = 2 if name == "recurrent" else number
    what = {"draft": "drafting", "recurrent": "the recurrent state", "moe": "experts", "gemm": "the matrices"}.get(name, name)
    share = seconds / at.times_s[now]
    return number, f"k = {at.ks[nxt]} brings {gain:.1%} and costs {cost:.1%} more time, {share:.1%} of it {what}"


def _growth(at: Point, now: int) -> dict[str, float]:
    """Seconds that each part of the round grows by with the next draft token; ``draft`` is all of the drafting."""
    growth: dict[str, float] = {"draft": float(at.draft_s[now] - (at.draft_s[now - 1] if now else 0.0))}
    for name, seconds in at.round.items():
        verify = seconds - at.draft.get(name, 0.0)
        before = at.base.get(name, 0.0) if now == 0 else verify[now - 1]
        growth[name] = float(verify[now] - before)
    return growth
