"""Numbers in sentences."""

from __future__ import annotations

from specadvisor.ranges import Range


def times(value: Range) -> str:
    """``1.52x (1.31-1.74)``."""
    return f"{value.mid:.2f}x ({value.low:.2f}-{value.high:.2f})"


def loads(low: int, high: int) -> str:
    """``8`` or ``1-16``."""
    return f"{low}" if low == high else f"{low}-{high}"
