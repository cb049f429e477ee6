"""DFlash 2: DFlash with a two-tap convolution and a candidate selector, windowed draft attention, shorter blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specadvisor.drafters.dflash import BlockDrafter, block_parts
from specadvisor.drafters.facts import drafter_facts
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture, Linear
from specadvisor.ranges import FloatArray
from specadvisor.step.layers import linear_time
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


# Conditionals are published flat to position 15 (.883, .854 at 7, .865 at 15), so blocks above the usual 8 are run.
PUBLISHED_DEPTH = 15


class DFlash2(BlockDrafter):
    """DFlash 2 (author's notes, vLLM PR 52816): the selector scores the top 16 candidates of each position at rank 256

    (about 2 M parameters, about 1.3% of the cycle); the convolution is about 16.5 M.
    """

    kind = "dflash2"

    def selection(self, deployment: Deployment, batch: FloatArray, k: FloatArray) -> StepTime:
        return linear_time(deployment, self.extra, batch * k)


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> DFlash2:
    """Every layer sees a window, the usual 2,048 keys unless the config says otherwise."""
    shape, assumptions = family_shape("dflash2", model, config)
    if not shape.windows:
        window = int(drafter_facts("dflash2").shape["sliding_window"])
        shape = replace(shape, windows=(window,) * shape.layers)
    selector = Linear("selector", shape.hidden, 2 * shape.rank, shard="replicated")
    parts = block_parts(shape, model)
    parts["k_max"] = max(shape.block, PUBLISHED_DEPTH)
    return DFlash2(name=name, extra=(selector,), assumptions=assumptions, **parts)
