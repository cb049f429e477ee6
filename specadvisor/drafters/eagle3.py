"""EAGLE-3 and EAGLE-3.1: one layer with a 2h-wide QKV input, three tapped target layers, a reduced head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specadvisor.drafters.parts import Shape, decoder_layers
from specadvisor.drafters.sequential import SequentialDrafter
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture, Linear


class Eagle3(SequentialDrafter):
    """EAGLE-3 (2503.01840). ``fc``: taps * h_target -> h, only on rows that carry target features (prompt, accepted tokens);

    recursive steps feed the drafter's own output back. Head h x V_d of its own, target embedding shared.
    """

    kind = "eagle3"


class Eagle31(Eagle3):
    """EAGLE-3.1: RMSNorm on each tapped state before ``fc`` and the normed output fed back; same cost as EAGLE-3."""

    kind = "eagle3_1"


def parts(shape: Shape) -> dict[str, Any]:
    """Layers, fusion and head of an EAGLE-3 class drafter."""
    return {
        "shape": shape,
        "layers": decoder_layers(shape, first_input=2 * shape.hidden),
        "inputs": (Linear("fc", shape.taps * shape.target_hidden, shape.hidden, shard="replicated"),),
        "head": Linear("draft_head", shape.hidden, shape.draft_vocab),
        "owns_head": True,
    }


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Eagle3:
    """EAGLE-3 of the usual shape, or of ``config``."""
    shape, assumptions = family_shape("eagle3", model, config)
    return Eagle3(name=name, model=model, assumptions=assumptions, **parts(shape))


def build_eagle3_1(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Eagle31:
    """EAGLE-3.1 of the usual shape, or of ``config``."""
    shape, assumptions = family_shape("eagle3_1", model, config)
    return Eagle31(name=name, model=model, assumptions=assumptions, **parts(shape))
