"""What an engine changes about a drafter: its weight format, its default tree, the draft lengths it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.dflash import BlockDrafter
from specadvisor.drafters.facts import engine_facts, tree_engines
from specadvisor.drafters.parts import layers_in_format, linears_in_format
from specadvisor.drafters.tree import parse_tree


def as_run_by(engine: str, drafter: Drafter, *, explicit_tree: bool = False) -> Drafter:
    """``drafter`` as ``engine`` runs it (``profiles/drafters/engines.toml``)."""
    facts = engine_facts()
    if engine in facts["target_format"]["engines"] and drafter.kind in facts["target_format"]["kinds"]:
        drafter = in_format(drafter, drafter.model.weight_format)
        rows = int(facts["target_format"]["head_rows"])
        if drafter.head and drafter.head.out_features > rows:
            head = replace(drafter.head, name="reduced_head", out_features=rows)
            drafter = replace(drafter, head=head, owns_head=True)
        drafter = replace(drafter, assumptions=(*drafter.assumptions, str(facts["target_format"]["note"])))
    if drafter.k_multiple > 1:
        single = facts["mtp_multiples"].get(engine)
        if single is None or drafter.model.model_type.startswith(tuple(single)):
            drafter = replace(drafter, k_multiple=1)
    if drafter.tree and not explicit_tree and engine not in tree_engines(drafter.tree):
        note = f"{drafter.kind}: {engine} verifies chains, so the weights draft a chain."
        drafter = replace(drafter, tree=None, assumptions=(*drafter.assumptions, note))
    tree = facts["default_tree"].get(engine, {}).get(drafter.kind)
    if tree and not explicit_tree:
        shape = parse_tree(tree)
        assert shape is not None
        note = f"{drafter.kind}: {engine} drafts the tree {tree} by default."
        drafter = replace(drafter, tree=shape, assumptions=(*drafter.assumptions, note))
    return drafter


def in_format(drafter: Drafter, weight_format: str) -> Drafter:
    """The drafter's own matrices stored as ``weight_format``; a head shared with the target keeps the target's."""
    others: dict[str, Any] = {}
    if isinstance(drafter, BlockDrafter):
        others["context_linears"] = linears_in_format(drafter.context_linears, weight_format)
    return replace(
        drafter,
        **others,
        layers=layers_in_format(drafter.layers, weight_format),
        inputs=linears_in_format(drafter.inputs, weight_format),
        step_linears=linears_in_format(drafter.step_linears, weight_format),
        extra=linears_in_format(drafter.extra, weight_format),
    )
