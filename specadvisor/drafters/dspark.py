"""DSpark: the DFlash backbone, a sequential low-rank Markov head, and a confidence score for every position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from specadvisor.drafters.dflash import BlockDrafter, block_parts
from specadvisor.drafters.parts import layers_with_window
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture, Linear
from specadvisor.ranges import FloatArray
from specadvisor.step.head import head_time
from specadvisor.step.layers import linear_time
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


# DeepSeek-V4 ships its DSpark drafter: 3 mixture-of-experts layers with a window of 128 keys, 5 drafts.
BUNDLED = ("deepseek_v4", "deepseek_ref")
BUNDLED_LAYERS, BUNDLED_BLOCK, BUNDLED_WINDOW = 3, 5, 128


@dataclass(frozen=True, kw_only=True)
class DSpark(BlockDrafter):
    """DSpark: the anchor's position predicts too: a block of gamma rows gives gamma drafts, gamma + 1 tokens are verified.
    ``bundled``: the target's checkpoint holds the drafter.

    Markov head: logits_j += W2 W1[x_(j-1)]: gamma sequential products of r x V, each reading W2 (V * r) again.
    """

    kind = "dspark"

    markov: Linear = field(repr=False)
    bundled: bool = False

    def selection(self, deployment: Deployment, batch: FloatArray, k: FloatArray) -> StepTime:
        confidence = linear_time(deployment, (self.extra[-1],), batch * k)
        return head_time(deployment, self.markov, batch).scaled(k) + confidence


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> DSpark:
    """Extra parameters: W1 (an embedding of V rows) and W2, 2 * V * r, and h + r for the confidence."""
    shape, assumptions = family_shape("dspark", model, config)
    bundled = config is None and model.mtp is not None and model.model_type in BUNDLED
    shape = replace(shape, block=BUNDLED_BLOCK, layers=BUNDLED_LAYERS) if bundled else shape
    parts = block_parts(shape, model)
    if bundled:
        parts.update(_bundled_layers(model))
        text = f"dspark: the checkpoint's own drafter assumed, {BUNDLED_LAYERS} target-like layers, block {BUNDLED_BLOCK}."
        assumptions = (text,)
    parts["k_max"] = shape.block
    markov = Linear("markov_out", shape.rank, shape.vocab)
    extra = (
        Linear("markov_in", shape.vocab, shape.rank),
        markov,
        Linear("confidence", shape.hidden + shape.rank, 1, shard="replicated"),
    )
    parts.update(name=name, markov=markov, extra=extra, bundled=bundled)
    return DSpark(anchor_drafts=True, assumptions=assumptions, **parts)


def _bundled_layers(model: Architecture) -> dict[str, Any]:
    """Layers like the checkpoint's MTP block, and their key-value matrices for the context rows."""
    assert model.mtp is not None
    layers = tuple(replace(la, count=BUNDLED_LAYERS * la.count) for la in layers_with_window(model.mtp.layers, BUNDLED_WINDOW))
    cached = [m for la in model.mtp.layers for m in la.linears if "kv" in m.name]
    context = tuple(replace(m, name=f"{m.name}{i}", fused="") for i in range(BUNDLED_LAYERS) for m in cached)
    return {"layers": layers, "context_linears": context}
