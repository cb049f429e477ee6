"""``specadvisor drafters``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.listing import emit_rows
from specadvisor.errors import InputError, nearest
from specadvisor.ids import ENGINES, resolve

if TYPE_CHECKING:
    from specadvisor.drafters.facts import Facts


def drafters(
    name: Annotated[str | None, typer.Argument(help="Drafter kind or modifier; default: list all.")] = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Drafting techniques, or the structure, cost and sources of one."""
    from specadvisor.drafters import FAMILIES
    from specadvisor.drafters.facts import drafter_facts, modifier_facts
    from specadvisor.drafters.modifiers.registry import MODIFIERS
    from specadvisor.report.catalogue import details, technique_list, technique_row

    def row_of(facts: Facts) -> dict[str, object]:
        modifier = MODIFIERS.get(facts.id)
        return technique_row(facts, modifier.takes if modifier else "", engines_of(facts, modifier is not None))

    families, modifiers = [drafter_facts(kind) for kind in FAMILIES], list(modifier_facts().values())
    if name is None:
        rows = [row_of(facts) for facts in (*families, *modifiers)]
        return emit_rows(
            rows,
            lambda: technique_list("Drafters", families) + technique_list("Modifiers (--with)", modifiers),
            format,
            output,
        )
    known = {facts.id: facts for facts in (*modifiers, *families)}
    text = name.strip().lower()
    found = known.get(text) or known.get(text.replace("_", "-"))
    if found is None:
        try:
            found = known[resolve("drafter", text)]
        except (InputError, KeyError):
            raise InputError("drafter or modifier", name, ", ".join(known), nearest(text, known)) from None
    row = row_of(found)
    emit_rows([row], lambda: details(found.title, row), format, output)


def engines_of(facts: Facts, modifier: bool) -> str:
    """Which engines run a technique, under which name and from which version; "none" for research code."""
    from specadvisor.serving import load_engine

    if modifier:
        return ", ".join(str(engine) for engine in facts.shape["engines"]) or "none"
    found = []
    for engine in ENGINES:
        support = load_engine(engine).supports(facts.id)
        version = f" >= {support.since}" if support.since else ""
        if support.supported:
            found.append(f"{engine}{version} ({support.method})")
        elif support.note.startswith("removed"):
            found.append(support.note.partition(". ")[0])
    return "; ".join(found) or "none"
