"""Reports as text: plain (files, pipes, tests) and coloured (a terminal, through rich)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from specadvisor.advise.recommendation import Recommendation
from specadvisor.report.blocks import Block, Lines, Table
from specadvisor.report.tables import recommendation_blocks

WIDTH = 100
# Columns of words may be folded down to this.
FOLDED = 24


def render(recommendation: Recommendation) -> str:
    """The report of a recommendation as plain text."""
    return plain(recommendation_blocks(recommendation))


def plain(blocks: Sequence[Block]) -> str:
    """Blocks as plain text, one after the other."""
    return "\n\n".join(_lines(b) if isinstance(b, Lines) else _table(b) for b in blocks) + "\n"


def _lines(block: Lines) -> str:
    bullets = [_wrapped(line, "  - ", "    ") for line in block.lines]
    return "\n".join([_wrapped(block.title), *bullets])


def _wrapped(text: str, first: str = "", rest: str = "  ") -> str:
    """Lines of at most ``WIDTH``; a word such as a path or a command's option is never broken."""
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _table(block: Table) -> str:
    widths = _widths(block)
    left = [name in block.left for name in block.columns]

    def row(cells: Sequence[str]) -> list[str]:
        folded = [
            textwrap.wrap(c, w, break_long_words=False, break_on_hyphens=False) or [""] if is_left else [c]
            for c, w, is_left in zip(cells, widths, left, strict=True)
        ]
        lines = []
        for parts in zip_longest(*folded, fillvalue=""):
            placed = (c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(parts, widths, left, strict=True))
            lines.append(("  " + "  ".join(placed)).rstrip())
        return lines

    return "\n".join([_wrapped(block.title), *row(block.columns), *(line for cells in block.rows for line in row(cells))])


def _widths(block: Table) -> list[int]:
    """Width of each column; the widest columns of words give way, letter by letter, until the table is as wide as ``WIDTH``."""
    widths = [max(len(cell) for cell in column) for column in zip(block.columns, *block.rows, strict=True)]
    words = [i for i, name in enumerate(block.columns) if name in block.left]
    while words and 2 * len(widths) + sum(widths) > WIDTH:
        widest = max(words, key=lambda i: widths[i])
        if widths[widest] <= FOLDED:
            break
        widths[widest] -= 1
    return widths


def show(blocks: Sequence[Block]) -> None:
    """Print to standard output: with colours on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        sys.stdout.write(plain(blocks))
        return
    from rich.console import Console
    from rich.table import Table as RichTable

    terminal = Console(highlight=False)
    for block in blocks:
        console = terminal if isinstance(block, Lines) else Console(highlight=False, width=max(terminal.width, _least(block)))
        console.print(f"[bold]{_escaped(block.title)}[/bold]")
        if isinstance(block, Lines):
            for line in block.lines:
                console.print(f"  [cyan]-[/cyan] {_escaped(line)}")
        else:
            table = RichTable(box=None, header_style="cyan", padding=(0, 1))
            for name in block.columns:
                words = name in block.left
                table.add_column(name, justify="left" if words else "right", overflow="fold", no_wrap=not words)
            for cells in block.rows:
                table.add_row(*(_escaped(cell) for cell in cells))
            console.print(table)
        console.print()


def _least(block: Table) -> int:
    """Width below which numbers would break: columns of words may fold, down to a few letters."""
    widths = [max(len(cell) for cell in column) for column in zip(block.columns, *block.rows, strict=True)]
    return sum(min(w, FOLDED) if name in block.left else w for name, w in zip(block.columns, widths, strict=True)) + 2 * len(
        widths
    )


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
