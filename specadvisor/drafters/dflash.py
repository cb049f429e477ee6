"""DFlash: one bidirectional pass over a block of masks, keys and values of the context injected from target states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.parts import Shape, context_projections, decoder_layers
from specadvisor.drafters.round import Load, Round
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture, Layer, Linear
from specadvisor.ranges import FloatArray
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.layers import layers_time, linear_time
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class BlockDrafter(Drafter):
    """DFlash (2602.06036) and the families on its backbone.

        draft = fc(r rows) + K,V projections of L_d layers (r rows) + L_d layers (block rows) + head(drafted rows)

    Context rows bypass Q, O and the feed-forward. The block holds the anchor (last accepted token) and k masks; it may be
    run shorter than trained, never longer. The full head of the target is shared.
    """

    kind = "dflash"

    context_linears: tuple[Linear, ...] = field(default=(), repr=False)
    anchor_drafts: bool = False

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k, context, accepted = load.batch, load.k, load.context, load.accepted
        rows = batch * self.catch_up_rows(deployment.serving, k, accepted)
        block = self.drafting_positions(k)
        head = self.head or self.model.head
        draft = linear_time(deployment, (*self.inputs, *self.context_linears), rows)
        draft = draft + layers_time(deployment, self.layers, batch, block, context)
        draft = draft + head_time(deployment, head, batch * k) + sampling_time(deployment, batch * k, head.out_features)
        draft = draft + self.selection(deployment, batch, k)
        layers = k * 0.0 + self.layer_count
        return Round(
            draft=draft + self.launches(deployment, 1.0, layers),
            verified_tokens=1.0 + self.verified_drafts(k),
        )

    def drafting_positions(self, k: Any) -> FloatArray:
        """The whole block, the anchor included where it predicts nothing."""
        return np.asarray(k, dtype=float) + (0.0 if self.anchor_drafts else 1.0)

    def selection(self, deployment: Deployment, batch: FloatArray, k: FloatArray) -> StepTime:
        """What the family runs after the head: nothing for DFlash."""
        return StepTime()

    @property
    def prefill_parameters(self) -> float:
        """Prompt tokens run the fusion and the K, V projections only."""
        return float(sum(m.parameters for m in (*self.inputs, *self.context_linears)))


def block_parts(shape: Shape, model: Architecture) -> dict[str, Any]:
    """Layers, fusion and limits of a block drafter; DFlare mixes tapped layers by weights instead of a fusion matrix."""
    layers: tuple[Layer, ...] = decoder_layers(shape)
    fusion = () if shape.mixing else (Linear("fc", shape.taps * shape.target_hidden, shape.hidden, shard="replicated"),)
    return {
        "model": model,
        "shape": shape,
        "layers": layers,
        "inputs": fusion,
        "context_linears": context_projections(layers),
        "head": model.head,
        "k_max": shape.block - 1,
    }


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> BlockDrafter:
    """DFlash of the usual shape, or of ``config``."""
    shape, assumptions = family_shape("dflash", model, config)
    return BlockDrafter(name=name, assumptions=assumptions, **block_parts(shape, model))
