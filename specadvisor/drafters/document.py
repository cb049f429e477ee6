"""Writes ``docs/drafters.md`` from the registries: ``python -m specadvisor.drafters.document docs/drafters.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from specadvisor.data_files import write_atomically
from specadvisor.drafters.facts import OPERATING_CLASSES, TRAINING_CLASSES, Facts, drafter_facts, modifier_facts, out_of_scope
from specadvisor.drafters.modifiers import MODIFIERS
from specadvisor.drafters.registry import FAMILIES

_INTRO = """# Drafting techniques

This page is generated from the registry (`python -m specadvisor.drafters.document docs/drafters.md`); the text behind it is
`profiles/drafters/*.toml`, the arithmetic is in `specadvisor/drafters/`. AL is the number of tokens a round emits, bonus
included; k the number of drafted tokens; h, L, V width, layers and vocabulary of the target; r the tokens accepted last round.

A family is named as `--drafter eagle3`, or by the path of its `config.json`; a modifier is added with `--with name` or
`--with name=value`. Lossy modifiers change the output distribution and are never recommended unless you allow it.

What an engine cannot run is priced, never recommended. A family that no serving engine has (marked research), and a modifier
that yours does not have, take part only where you name them: the answer then opens with "cannot be run here", gives the
published price, and writes neither a setting nor a measurement. Beside drafters that can run they never lead. A family that
only other engines have is refused with their names; so is a tree on an engine that verifies chains. With several drafters, or
with none named, those that a modifier does not fit are left out with the reason.

To add a family: one file in `specadvisor/drafters/` (a subclass of `Drafter` whose `draft` says what a round runs, and a
`build`), one line in `registry.py`, one name in `ids.py`, and `profiles/drafters/<kind>.toml` with its facts and sources. To
add a modifier: a class in `specadvisor/drafters/modifiers/`, one line in its registry, one table in `modifiers.toml`. The
tests walk both registries and fail where structure, cost, acceptance effect, legality or source is missing.
"""


def page() -> str:
    """The whole page."""
    drafters = [drafter_facts(kind) for kind in FAMILIES]
    facts = modifier_facts()
    modifiers = [facts[id_] for id_ in MODIFIERS]
    parts = [_INTRO, "## Drafter families\n", _table(drafters), "## Modifiers\n", _table(modifiers, value=True)]
    parts += ["## Training and operating\n", _training_table(drafters), _classes(), "## Out of scope\n", _out_of_scope()]
    return "\n".join(parts)


def _table(rows: Iterable[Facts], *, value: bool = False) -> str:
    lines = [
        "| name | technique | structure | cost of a round | effect on acceptance | legality | sources |",
        "|---|---|---|---|---|---|---|",
    ]
    for facts in rows:
        name = f"`{facts.id}`" + ("<br>research" if facts.research else "")
        if value and MODIFIERS[facts.id].takes:
            name += f"<br>value: {MODIFIERS[facts.id].takes}"
        if value and MODIFIERS[facts.id].lossy:
            name += "<br>**lossy**"
        sources = ", ".join(f"[{s.label}]({s.url})" for s in facts.sources)
        cells = (name, facts.title, facts.structure, facts.cost, facts.acceptance, facts.legality, sources)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _training_table(rows: Iterable[Facts]) -> str:
    lines = ["| family | training class | published sizes | operating class |", "|---|---|---|---|"]
    for facts in rows:
        sizes = "; ".join(facts.training) or "-"
        lines.append(f"| `{facts.id}` | {facts.training_class} | {sizes} | {facts.operating_class} |")
    return "\n".join(lines) + "\n"


def _classes() -> str:
    lines = [f"- training class {name}: {text}" for name, text in TRAINING_CLASSES.items()]
    lines += [f"- operating class {number}: {text}" for number, text in OPERATING_CLASSES.items()]
    return "\n".join(lines) + "\n"


def _out_of_scope() -> str:
    return "\n".join(f"- **{row['title']}**: {row['reason']} [source]({row['url']})" for row in out_of_scope().values()) + "\n"


def main(arguments: list[str]) -> None:
    """Write the page to the path given, or print it."""
    if arguments:
        write_atomically(Path(arguments[0]), page())
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
