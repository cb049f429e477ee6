"""Heads without attention: Medusa, Hydra, MLP and LSTM speculators. No cache, so their cost does not depend on context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.round import Load, Round
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture, Linear
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.layers import linear_time

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


class Medusa(Drafter):
    """Medusa (2401.10774): head i = ResBlock(h x h) and a vocabulary head of its own, all on one hidden state, in one step.

    Weights: n * (h*h + h*V).
    """

    kind = "medusa"
    writes_ahead = False

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k = load.batch, load.k
        head = self.head or self.model.head
        one = linear_time(deployment, (self.extra[0],), batch)
        one = one + head_time(deployment, head, batch) + sampling_time(deployment, batch, head.out_features)
        single = k * 0.0 + 1.0
        return Round(
            draft=one.scaled(k) + self.launches(deployment, 1.0, single),
            verified_tokens=1.0 + self.verified_drafts(k),
        )


class Hydra(Drafter):
    """Hydra (2402.05109): head j is an MLP over [h, e_1..e_j], so the n steps follow each other.

    Step j reads (j + 1) * h * h + h * V weights; the mean over k steps is (k + 3) / 2 * h * h.
    """

    kind = "hydra"
    writes_ahead = False

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k = load.batch, load.k
        width = float(self.tree.topk) if self.tree else 1.0
        head = self.head or self.model.head
        rows = batch * width
        blocks = linear_time(deployment, (self.extra[0],), rows).scaled((k + 3.0) / 2.0 * k)
        heads = (head_time(deployment, head, rows) + sampling_time(deployment, rows, head.out_features)).scaled(k)
        return Round(
            draft=blocks + heads + self.launches(deployment, k, k),
            verified_tokens=1.0 + self.verified_drafts(k),
        )


class MlpSpeculator(Drafter):
    """MLP or LSTM speculator (2404.19124, ArcticInference): per step a projection of state and embedding and a full head.

    ``tie_weights``: one set of weights for every step; else n sets are resident.
    """

    kind = "mlp_speculator"
    writes_ahead = False

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k = load.batch, load.k
        head = self.head or self.model.head
        one = linear_time(deployment, self.step_linears, batch)
        one = one + head_time(deployment, head, batch) + sampling_time(deployment, batch, head.out_features)
        return Round(
            draft=one.scaled(k) + self.launches(deployment, k, k),
            verified_tokens=1.0 + self.verified_drafts(k),
        )


def build_medusa(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Medusa:
    """n heads, each with a vocabulary matrix of its own."""
    n, note = _count("medusa", model, config)
    head = Linear("medusa_head", model.hidden, model.vocab)
    blocks = tuple(Linear(f"resblock{i}", model.hidden, model.hidden, shard="replicated") for i in range(n))
    others = tuple(Linear(f"medusa_head{i}", model.hidden, model.vocab) for i in range(1, n))
    return Medusa(
        name=name, model=model, extra=(*blocks, *others), head=head, owns_head=True, k_max=n,
        assumptions=note,
    )  # fmt: skip


def build_hydra(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Hydra:
    """n heads whose inputs grow by one embedding a step, each with a vocabulary matrix of its own."""
    n, note = _count("hydra", model, config)
    h = model.hidden
    blocks = tuple(Linear(f"mlp{j}", (j + 2) * h if j else h, h, shard="replicated") for j in range(n + 1))
    heads = tuple(Linear(f"hydra_head{j}", h, model.vocab) for j in range(1, n))
    return Hydra(
        name=name, model=model, extra=(*blocks, *heads), head=Linear("hydra_head", h, model.vocab), owns_head=True,
        k_max=n, assumptions=note,
    )  # fmt: skip


def build_mlp_speculator(model: Architecture, config: Mapping[str, Any] | None, name: str) -> MlpSpeculator:
    """One set of weights for all steps (``tie_weights``), as the published Arctic speculators."""
    n, note = _count("mlp_speculator", model, config)
    shape, _ = family_shape("mlp_speculator", model, config)
    width = shape.width or 4096
    steps = (
        Linear("state_projection", width, width, shard="replicated"),
        Linear("embedding_projection", width, width, shard="replicated"),
    )
    return MlpSpeculator(
        name=name, model=model, step_linears=steps,
        extra=(Linear("first_projection", model.hidden, width, shard="replicated"),),
        head=Linear("speculator_head", width, model.vocab), owns_head=True, embedding_parameters=model.vocab * width,
        k_max=n, assumptions=note,
    )  # fmt: skip


def _count(kind: str, model: Architecture, config: Mapping[str, Any] | None) -> tuple[int, tuple[str, ...]]:
    shape, _ = family_shape(kind, model, config)
    n = shape.modules
    return n, () if config and "modules" in config else (f"{kind}: {n} heads assumed, the usual number.",)
