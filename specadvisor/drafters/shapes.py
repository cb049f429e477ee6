"""The usual sizes of a drafter family for a given target, overridden by whatever a config states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from specadvisor.drafters.facts import drafter_facts
from specadvisor.drafters.parts import Shape, target_attention, target_intermediate
from specadvisor.model.architecture import Architecture

_FIELDS = {f.name for f in fields(Shape)}


def family_shape(kind: str, model: Architecture, stated: Mapping[str, Any] | None = None) -> tuple[Shape, tuple[str, ...]]:
    """(sizes, assumptions): the family's usual shape for ``model`` with the ``stated`` sizes of a config on top.

    Usual sizes follow the 47 published configs: one-layer heads copy the target's attention (GQA with 128-wide heads and
    8 KV heads where the target has none to copy) and its feed-forward width, 6h where the target is a mixture of experts;
    block drafters have 32/8 heads of 128, and 2h (3h below a width of 4096) on mixtures of experts.
    """
    stated = dict(stated or {})
    usual: dict[str, Any] = {k: v for k, v in drafter_facts(kind).shape.items() if k in _FIELDS}
    hidden = stated.get("hidden", model.hidden)
    block_family = usual.get("block", 0) > 0
    sizes: dict[str, Any] = {
        "hidden": hidden,
        "layers": 1,
        "intermediate": target_intermediate(model) or _mixture_width(hidden, block_family),
        "vocab": model.vocab,
        "target_hidden": stated.get("hidden", model.hidden),
        **_attention_sizes(model, hidden, block_family),
        **usual,
        **{name: value for name, value in stated.items() if name in _FIELDS},
    }
    if block_family and "layers" not in stated and not target_intermediate(model) and hidden < 4096:
        sizes["layers"] = 8
    if "vocab" in stated and "draft_vocab" not in stated:
        sizes["draft_vocab"] = sizes["vocab"]
    sizes["draft_vocab"] = min(int(sizes.get("draft_vocab") or sizes["vocab"]), int(sizes["vocab"]))
    shape = Shape(**sizes)
    return shape, () if "hidden" in stated else (_sentence(kind, shape),)


def _attention_sizes(model: Architecture, hidden: int, block_family: bool) -> dict[str, int]:
    attention = target_attention(model)
    if block_family:
        return {"heads": 32, "kv_heads": 8, "head_dim": 128}
    if attention is None or attention.kind == "mla":
        return {"heads": max(1, hidden // 128), "kv_heads": 8, "head_dim": 128}
    return {"heads": attention.heads, "kv_heads": attention.kv_heads, "head_dim": attention.key_dim}


def _mixture_width(hidden: int, block_family: bool) -> int:
    if not block_family:
        return 6 * hidden
    return 3 * hidden if hidden < 4096 else 2 * hidden


def _sentence(kind: str, shape: Shape) -> str:
    block = f", block {shape.block}" if shape.block else ""
    vocab = f", {shape.draft_vocab} draft tokens in its head" if shape.draft_vocab != shape.vocab else ""
    plural = "layer" if shape.layers == 1 else "layers"
    return (
        f"{kind}: no drafter config given, usual shape assumed: {shape.layers} {plural} of width {shape.hidden}, "
        f"MLP {shape.intermediate}, {shape.heads}/{shape.kv_heads} heads of {shape.head_dim}{vocab}{block}."
    )
