"""Reports as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from specadvisor.report.tables import Block, Lines


def markdown(blocks: Sequence[Block]) -> str:
    """Blocks as Markdown sections with pipe tables."""
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Lines):
            parts.append("\n".join([f"## {block.title}", "", *(f"- {line}" for line in block.lines)]))
            continue
        rule = ["---" if name in block.left else "---:" for name in block.columns]
        rows = [" | ".join(_cell(c) for c in cells) for cells in (block.columns, rule, *block.rows)]
        parts.append("\n".join([f"## {block.title}", "", *(f"| {row} |" for row in rows)]))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
