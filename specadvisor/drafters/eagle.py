"""EAGLE-1 and EAGLE-2: one decoder layer behind a 2h -> h fusion, the target's full head at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specadvisor.drafters.parts import decoder_layers
from specadvisor.drafters.sequential import SequentialDrafter
from specadvisor.drafters.shapes import family_shape
from specadvisor.drafters.tree import Tree
from specadvisor.model.architecture import Architecture, Linear


class Eagle(SequentialDrafter):
    """EAGLE-1 (2401.15077). Fc(2h -> h) on [embedding, feature] runs on every row; embedding and head are the target's."""

    kind = "eagle"

    @property
    def weights_of(self) -> tuple[str, ...]:
        """EAGLE-2 is the same weights with a tree."""
        return (Eagle.kind, Eagle2.kind)


class Eagle2(Eagle):
    """EAGLE-2 (2406.16858): the same weights, a dynamic tree. Passes: first on accepted tokens, then ``topk`` rows each."""

    kind = "eagle2"

    @property
    def acceptance_kind(self) -> str:
        """Without its tree it is EAGLE-1."""
        return self.kind if self.tree else Eagle.kind


PAPER_TREE = Tree(topk=10, steps=6, tokens=60)


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Eagle:
    """EAGLE-1 of the usual shape, or of ``config``."""
    return Eagle(name=name, **_parts("eagle", model, config))


def build_eagle2(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Eagle2:
    """EAGLE-2 with the tree of its paper (top-k 10, 60 verified tokens, depth 6) unless another one is set."""
    parts = _parts("eagle2", model, config)
    parts["assumptions"] += (f"eagle2: tree {PAPER_TREE} of the paper.",)
    return Eagle2(name=name, tree=PAPER_TREE, **parts)


def _parts(kind: str, model: Architecture, config: Mapping[str, Any] | None) -> dict[str, Any]:
    shape, assumptions = family_shape(kind, model, config)
    return {
        "model": model,
        "shape": shape,
        "layers": decoder_layers(shape),
        "step_linears": (Linear("fc", 2 * shape.hidden, shape.hidden, shard="replicated"),),
        "head": model.head,
        "assumptions": assumptions,
    }
