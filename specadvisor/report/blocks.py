"""What a report is made of: lines and tables that every renderer lays out in its own way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are text; ``left`` names the columns that are words (the rest is right-aligned)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """A titled list of sentences."""

    title: str
    lines: tuple[str, ...]


Block = Table | Lines
