"""What a plan is made of: points, sections, and the rule that fits them into a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

KV_HEADS = 8


@dataclass(frozen=True, slots=True)
class GemmPoint:
    """One matrix product y[m, n] = x[m, k] W[n, k]^T."""

    format: str
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class AttentionPoint:
    """One verify step: ``batch`` sequences of ``query_tokens`` new tokens on ``context`` keys.

    ``group`` query heads share a KV head. ``split`` False forces one pass along the cache per block, as FlashAttention-2
    does for several query tokens. ``page_size`` 0 is a contiguous cache, ``tile_rows`` 0 the tile that fits the rows.
    """

    batch: int
    query_tokens: int
    context: int
    group: int
    kv_heads: int = KV_HEADS
    head_dim: int = 128
    kv_format: str = "bf16"
    split: bool = True
    page_size: int = 0
    tile_rows: int = 0

    @property
    def rows(self) -> int:
        return self.query_tokens * self.group

    @property
    def cache_bytes(self) -> int:
        """Bytes of K and V together."""
        return self.batch * self.context * self.kv_heads * self.head_dim * 2 * (1 if self.kv_format == "fp8" else 2)


@dataclass(frozen=True, slots=True)
class Section:
    """Points that are measured together, and the seconds planned for them."""

    name: str
    operator: str
    points: tuple[Any, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """Points of one section, the most wanted first. Chunks with a lower ``rank`` get their time first."""

    rank: float
    section: str
    operator: str
    points: tuple[Any, ...]
    point_s: float
    setup_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The sections in order of measurement; ``other_s`` for checks, sentinels and fit; notes on what was ``left_out``.

    ``chunks`` are all that was wanted, and ``limit_s`` is what the plan had to keep to.
    """

    sections: tuple[Section, ...]
    other_s: float = 0.0
    left_out: tuple[str, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    limit_s: float = math.inf

    @property
    def seconds(self) -> float:
        return self.other_s + sum(section.seconds for section in self.sections)


def plan_within(chunks: Sequence[Chunk], limit_s: float, other_s: float) -> Plan:
    """The plan that ends within ``limit_s``: chunks by rank, each with as many of its points as the time still allows.

    Sections keep the order in which ``chunks`` first name them.
    """
    room = limit_s - other_s
    kept: dict[int, int] = {}
    for i in sorted(range(len(chunks)), key=lambda i: chunks[i].rank):
        chunk = chunks[i]
        fitting = math.floor((room - chunk.setup_s) / chunk.point_s + 1e-9)
        kept[i] = max(0, min(len(chunk.points), fitting))
        room -= _seconds(chunk, kept[i])
    sections, left_out = [], []
    for name in dict.fromkeys(chunk.section for chunk in chunks):
        mine = [i for i, chunk in enumerate(chunks) if chunk.section == name]
        points = tuple(dict.fromkeys(p for i in mine for p in chunks[i].points[: kept[i]]))
        wanted = len({p for i in mine for p in chunks[i].points})
        if points:
            seconds = sum(_seconds(chunks[i], kept[i]) for i in mine)
            sections.append(Section(name, chunks[mine[0]].operator, points, round(seconds, 2)))
        if len(points) < wanted:
            left_out.append(f"{wanted - len(points)} of {wanted} points of {name}" if points else f"all of {name}")
    notes = (f"left out, to end within {limit_s:.0f} s: {', '.join(left_out)}",) if left_out else ()
    return Plan(tuple(sections), other_s, notes, tuple(chunks), limit_s)


def _seconds(chunk: Chunk, points: int) -> float:
    return chunk.setup_s + points * chunk.point_s if points else 0.0


def tiers(*wanted: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The points of each tier that no earlier tier has."""
    found: list[tuple[Any, ...]] = []
    seen: set[Any] = set()
    for points in wanted:
        found.append(tuple(dict.fromkeys(p for p in points if p not in seen)))
        seen |= set(found[-1])
    return found
