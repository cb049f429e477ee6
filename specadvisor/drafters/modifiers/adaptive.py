"""Verification budgets chosen on the cost curve: tokens of all requests compete by their chance to survive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from specadvisor.drafters.modifiers.base import Modifier
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray
from specadvisor.step.target import target_step

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.drafters.round import Load, Round
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment

# Acceptance of easy steps: conditional acceptance rises with depth towards this (n-gram given a hit .97, DFlash 2 .86).
EASY = 0.95


def easy_share(survival: FloatArray) -> tuple[float, float, float]:
    """(p, a_easy, a_hard) with s_1 and the last s_j of the list: s_j = p a_easy^j + (1 - p) a_hard^j.

    Surviving position j means the text is easy, which is why conditionals rise; the mixture says how far the survival of
    one request differs from another's, and so what competing for the budget can win. A flat list gives p = 0: every
    request then looks alike, which is a lower bound, since a mean curve hides part of the differences.
    """
    s = np.clip(np.asarray(survival, dtype=float), 0.0, 1.0)
    easy = max(EASY, float(s[0]))
    shares = np.linspace(0.0, 0.999, 400)
    hard = (s[0] - shares * easy) / (1.0 - shares)
    possible = hard >= 0.0
    shares, hard = shares[possible], hard[possible]
    last = shares * easy ** len(s) + (1.0 - shares) * hard ** len(s)
    best = int(np.argmin(np.abs(last - s[-1])))
    return float(shares[best]), easy, float(hard[best])


def length_at_budget(survival: FloatArray, k: int, budget: float) -> float:
    """AL when ``budget`` of ``k`` drafts per request are verified on average, chosen by confidence over all requests.

    Between two bounds, and taken half-way: a drafter that knows only whether a request is easy (``easy_share``), and one that
    knows each token's fate and spends the budget on accepted ones, 1 + min(budget, AL - 1). D-Cut's printed lengths lie at
    95-100% of the upper one (AngelSlim, Qwen3-8B with 16 rows); confidence heads elsewhere have printed none.
    """
    k = min(k, len(survival))
    p, easy, hard = easy_share(survival[:k])
    positions = np.arange(1, k + 1)
    scores = np.concatenate([easy**positions, hard**positions])
    masses = np.concatenate([np.full(k, p), np.full(k, 1.0 - p)])
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(masses[order]) - masses[order]
    taken = np.clip(budget - before, 0.0, masses[order])
    accepted = float(survival[:k].sum())
    scale = accepted / max(1e-12, float(scores @ masses))
    return 1.0 + 0.5 * (scale * float(taken @ scores[order]) + min(budget, accepted))


def flat_survival(k: FloatArray, accepted: FloatArray) -> FloatArray:
    """alpha^j with the AL that the longest round of the load has: the curve when only a length is known."""
    k, accepted = np.broadcast_arrays(k, accepted)
    longest = int(np.argmax(k))
    n, wanted = int(k.ravel()[longest]), float(accepted.ravel()[longest])
    low, high = 0.0, 1.0
    for _ in range(50):
        alpha = 0.5 * (low + high)
        if 1.0 + np.sum(alpha ** np.arange(1, n + 1)) > wanted:
            high = alpha
        else:
            low = alpha
    return np.asarray(low ** np.arange(1, n + 1))


def choose(current: Round, deployment: Deployment, load: Load, options: Sequence[tuple[FloatArray, FloatArray]]) -> Round:
    """The round with the (verified tokens, AL) of the option that gives the most tokens per second at each point.

    ``options`` are evaluated in turn, so the cost is one target pass per option; the first wins ties.
    """
    fixed = current.draft.total_s + current.cpu_s + current.round_overhead_s
    best_rate: FloatArray | None = None
    for verified, length in options:
        seconds = fixed + target_step(deployment, load.batch, verified, load.context, host=False).total_s
        rate = length / seconds
        if best_rate is None:
            best_rate, tokens, al = rate, *(np.broadcast_to(v, rate.shape) for v in (verified, length))
            continue
        better = rate > best_rate
        best_rate = np.where(better, rate, best_rate)
        tokens, al = np.where(better, verified, tokens), np.where(better, length, al)
    return replace(current, verified_tokens=np.asarray(tokens), acceptance_length=np.asarray(al))


def per_k(load: Load, value: Callable[[int], float]) -> FloatArray:
    """``value(k)`` for every k of the load, computed once per distinct k."""
    table = {int(k): value(int(k)) for k in np.unique(load.k)}
    return np.vectorize(table.__getitem__, otypes=[float])(load.k.astype(int))


@dataclass(frozen=True)
class AdaptiveVerification(Modifier):
    """Budget search over shares of the drafts: N + sum of the best survival scores, over draft + verify(budget)."""

    shares: ClassVar[tuple[float, ...]] = ()
    needs_confidence: ClassVar[tuple[str, ...]] = ()

    def check(self, drafter: Drafter) -> None:
        if self.value and not _share(self.value):
            raise InputError(self.id, self.value, "a share of the drafts to verify, above 0 and up to 1, or nothing")

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """Chains of drafters with a confidence to rank by."""
        if drafter.tree:
            return f"{self.id} shortens chains; {drafter.name} drafts a tree"
        if self.needs_confidence and drafter.kind not in self.needs_confidence:
            return f"{self.id} needs the confidence head of {', '.join(self.needs_confidence)}"
        return None

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        curve = flat_survival(load.k, load.accepted) if survival is None else np.asarray(survival, dtype=float)
        shares = (float(self.value),) if self.value else self.shares
        options = [(1.0 + share * load.k, per_k(load, partial(_length_at_share, curve, share))) for share in shares]
        return choose(current, deployment, load, options)


@dataclass(frozen=True)
class DCut(AdaptiveVerification):
    """D-Cut (AngelSlim): a share of {1/4, 1/2, 3/4, 1} of the draft rows of the batch is verified, by draft confidence.

    The shares' times are profiled at start-up (about 30 s); here they come from the step model.
    """

    id = "d-cut"
    excludes = "budget"
    takes = "a fixed share, such as 0.5, or nothing: the best at each load"
    optional = True
    shares = (1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class ConfidenceScheduler(AdaptiveVerification):
    """DSpark's confidence scheduler, vLLM ``enable_adaptive_verification``: any budget, slots compete over all requests."""

    id = "confidence-scheduler"
    excludes = "budget"
    takes = "a fixed share, such as 0.5, or nothing: the best at each load"
    optional = True
    shares = (1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125)
    needs_confidence = ("dspark",)


def _length_at_share(survival: FloatArray, share: float, k: int) -> float:
    return length_at_budget(survival, k, share * k)


def _share(text: str) -> bool:
    try:
        return 0.0 < float(text) <= 1.0
    except ValueError:
        return False
