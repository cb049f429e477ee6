"""Domino: the DFlash backbone corrected position by position by a GRU and a low-rank residual on the logits."""

from __future__ import annotations

from collections.abc import Mapping
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


class Domino(BlockDrafter):
    """Domino (2605.29707): k sequential steps of GRU(h -> g) and (h + g) -> r -> V; each step reads their weights again."""

    kind = "domino"

    def selection(self, deployment: Deployment, batch: FloatArray, k: FloatArray) -> StepTime:
        *recurrent, out = self.extra
        step = linear_time(deployment, recurrent, batch) + head_time(deployment, out, batch)
        return step.scaled(k)


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Domino:
    """Extra parameters: GRU 3*(h*g + g*g), projection (h + g)*r, residual head r*V (Qwen3-8B: 55.9 M, +5.3%)."""
    shape, assumptions = family_shape("domino", model, config)
    hidden, gru, rank = shape.hidden, shape.gru, shape.rank
    extra = (
        Linear("gru_in", hidden, 3 * gru, shard="replicated"),
        Linear("gru_state", gru, 3 * gru, shard="replicated"),
        Linear("low_rank", hidden + gru, rank, shard="replicated"),
        Linear("residual_head", rank, shape.vocab),
    )
    return Domino(name=name, extra=extra, assumptions=assumptions, **block_parts(shape, model))
