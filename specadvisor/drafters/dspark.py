"""DSpark: the DFlash backbone, a sequential low-rank Markov head, and a confidence score for every position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specadvisor.drafters.dflash import BlockDrafter, block_parts
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture, Linear
from specadvisor.ranges import FloatArray
from specadvisor.step.head import head_time
from specadvisor.step.layers import linear_time
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class DSpark(BlockDrafter):
    """DSpark: the anchor's position predicts too: a block of gamma rows gives gamma drafts, gamma + 1 tokens are verified.

    Markov head: logits_j += W2 W1[x_(j-1)]: gamma sequential products of r x V, each reading W2 (V * r) again.
    """

    kind = "dspark"
    lookahead_extra = 0

    markov: Linear = field(repr=False)

    def selection(self, deployment: Deployment, batch: FloatArray, k: FloatArray) -> StepTime:
        confidence = linear_time(deployment, (self.extra[-1],), batch * k)
        return head_time(deployment, self.markov, batch).scaled(k) + confidence


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> DSpark:
    """Extra parameters: W1 (an embedding of V rows) and W2, 2 * V * r, and h + r for the confidence."""
    shape, assumptions = family_shape("dspark", model, config)
    parts = block_parts(shape, model)
    parts["k_max"] = parts["trained_depth"] = shape.block
    markov = Linear("markov_out", shape.rank, shape.vocab)
    extra = (
        Linear("markov_in", shape.vocab, shape.rank),
        markov,
        Linear("confidence", shape.hidden + shape.rank, 1, shard="replicated"),
    )
    return DSpark(name=name, markov=markov, extra=extra, anchor_drafts=True, assumptions=assumptions, **parts)
