"""Numbers as a reader wants them: SI inside, ms and GB only here."""

from __future__ import annotations

from collections.abc import Sequence

from specadvisor.ranges import Range


def times(value: Range) -> str:
    """``1.52x (1.31-1.74)``."""
    return f"{value.mid:.2f}x ({value.low:.2f}-{value.high:.2f})"


def milliseconds(seconds: float) -> str:
    """Three significant digits of milliseconds."""
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def gigabytes(size: float) -> str:
    """Decimal gigabytes."""
    return f"{size / 1e9:.2f}"


def tokens(value: float) -> str:
    """Thousands separated by a thin mark; one decimal below 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def span(values: Sequence[int]) -> str:
    """``2-4`` for neighbours, ``0, 3-5`` with gaps."""
    parts: list[list[int]] = []
    for value in sorted(values):
        if parts and value == parts[-1][1] + 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
