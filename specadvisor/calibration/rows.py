"""One measured row, and the CSV that keeps every row so that a fit can be redone without the GPU."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from specadvisor.calibration.timing import Timing


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of one call. ``kernel`` is what ran; ``stand_in`` marks a kernel that no engine runs.

    ``format``: weight format (gemm, moe), cache format (attention), else what was timed. Shape columns that an operator
    does not have stay ``None``. ``engine`` is ``any`` where the kernel is no engine's own. ``auto`` is False where the
    measurement forces a choice that the kernel would not make (unsplit attention, a given tile, a later heuristic).
    """

    operator: str
    format: str
    us: float
    engine: str = "any"
    kernel: str = ""
    engine_version: str = ""
    stand_in: bool = False
    auto: bool = True
    q25_us: float | None = None
    q75_us: float | None = None
    samples: int | None = None
    calls: int | None = None
    sets: int | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    query_tokens: int | None = None
    context: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    page_size: int | None = None
    tile_rows: int | None = None
    splits: int | None = None
    tokens: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    experts: int | None = None
    top_k: int | None = None
    ranks: int | None = None
    bytes: int | None = None
    note: str = ""

    @property
    def relative_iqr(self) -> float:
        """Spread of the samples over their median; 0 where it was not recorded."""
        return (self.q75_us - self.q25_us) / self.us if self.q75_us and self.q25_us is not None else 0.0


COLUMNS = tuple(f.name for f in fields(Row))


def row(operator: str, format: str, timing: Timing, **columns: Any) -> Row:
    """A row from a ``Timing``."""
    return Row(
        operator=operator,
        format=format,
        us=timing.median_s * 1e6,
        q25_us=timing.q25_s * 1e6,
        q75_us=timing.q75_s * 1e6,
        samples=timing.samples,
        calls=timing.calls,
        **columns,
    )


def to_csv(rows: Iterable[Row]) -> str:
    """CSV text with a header; absent values are empty, times have five significant digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in rows:
        writer.writerow([_cell(getattr(one, name)) for name in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    return f"{value:.5g}" if isinstance(value, float) else value
