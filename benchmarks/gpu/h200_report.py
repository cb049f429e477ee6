"""Where verify attention steps with the packed rows, beside what the guidelines say; from rows, without a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from specadvisor.calibration.attention_bench import KERNEL
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run

TILES = (16, 64, 128)
Place = tuple[str, str, int, int, int]  # kernel, cache format, batch, context, group


def _places(rows: Iterable[Row]) -> dict[Place, dict[int, Row]]:
    """Attention rows by place and query tokens: neither forced tiles nor pages; torch's kernel is its own."""
    found: dict[Place, dict[int, Row]] = {}
    for r in rows:
        ours = r.kernel == KERNEL
        if r.operator != "attention" or r.page_size or (ours and not r.auto) or not (r.heads and r.kv_heads):
            continue
        place = (r.kernel, r.format, r.batch or 0, r.context or 0, r.heads // r.kv_heads)
        found.setdefault(place, {})[r.query_tokens or 0] = r
    return {place: dict(sorted(rows.items())) for place, rows in found.items()}


def _table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> list[str]:
    lines = list(lines)
    if not lines:
        return ["Nothing measured."]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(map(str, line))} |" for line in lines)]


def ladders(rows: Sequence[Row]) -> list[str]:
    """Time over that of one query token, by packed rows, with the tile and the splits that ran."""
    lines = []
    for place, here in _places(rows).items():
        if 1 not in here:
            continue
        base = here[1].us
        cells = [
            f"{q * place[-1]}: {r.us / base:.2f}" + (f" ({r.tile_rows}/{r.splits})" if r.splits else "")
            for q, r in here.items()
        ]
        lines.append((*place, f"{base:.1f}", ", ".join(cells)))
    head = ("kernel", "KV", "batch", "context", "G", "us at q=1", "time over q=1 at packed rows (tile/splits)")
    return _table(head, lines)


def edges(rows: Sequence[Row]) -> list[str]:
    """Guideline "align G (k + 1) with the tile": the last query token on a tile against the first past it.

    A ratio near 1 means the edge costs nothing there; (q + 1) / q is what plain growth with the tokens would give.
    """
    lines = []
    for place, here in _places(rows).items():
        for tile in TILES:
            fill = tile // place[-1]
            if fill in here and fill + 1 in here:
                ratio = here[fill + 1].us / here[fill].us
                lines.append((*place, tile, f"{fill} -> {fill + 1}", f"{ratio:.2f}", f"{(fill + 1) / fill:.2f}"))
    head = ("kernel", "KV", "batch", "context", "G", "tile", "query tokens", "time ratio", "growth by tokens")
    return _table(head, lines)


def fullest(rows: Sequence[Row]) -> list[str]:
    """Guideline "k = 128 / G - 1": what its verification costs over plain decoding, against one token and twice as many."""
    lines = []
    for place, here in _places(rows).items():
        group = place[-1]
        query = 128 // group
        if 1 not in here or query not in here:
            continue
        base, at = here[1].us, here[query].us
        past = next((r for q, r in here.items() if q > query), None)
        beyond = f"{past.us / at:.2f} at {(past.query_tokens or 0) * group} rows" if past else "-"
        cheapest = min(here, key=lambda q: here[q].us / q)
        lines.append((*place, query - 1, f"{at / base:.2f}", beyond, cheapest - 1))
    head = (
        "kernel", "KV", "batch", "context", "G", "k = 128/G - 1", "time over q=1", "past the tile", "k of least time a token"
    )  # fmt: skip
    return _table(head, lines)


def beside(rows: Sequence[Row]) -> list[str]:
    """Our kernel's time over torch's on the same point: below 1 ours is faster."""
    ours = {place[1:]: here for place, here in _places(rows).items() if place[0] == KERNEL}
    lines = []
    for place, theirs in _places(rows).items():
        if place[0] == KERNEL or place[1:] not in ours:
            continue
        cells = [f"{q}: {ours[place[1:]][q].us / r.us:.2f}" for q, r in theirs.items() if q in ours[place[1:]]]
        lines.append((*place, ", ".join(cells)))
    return _table(("kernel", "KV", "batch", "context", "G", "our time over its, by query tokens"), lines)


def bandwidths(rows: Sequence[Row]) -> list[str]:
    """Read and copy bandwidth by the bytes that one call moves: the L2 plateau first, memory at the end."""
    found: dict[int, dict[str, float]] = {}
    for r in rows:
        if r.operator in ("bandwidth", "memory") and r.bytes:
            found.setdefault(r.bytes, {})[r.operator] = r.bytes / r.us / 1e3
    cells = [
        (f"{size / 2**20:g}", *(f"{of[name]:,.0f}" if name in of else "-" for name in ("bandwidth", "memory")))
        for size, of in sorted(found.items())
    ]
    return _table(("MiB moved", "read GB/s", "copy GB/s"), cells)


def launches(rows: Sequence[Row]) -> list[str]:
    """The launch floor."""
    return _table(("what", "us"), [(r.format, f"{r.us:.2f}") for r in rows if r.operator == "launch"])


def products(rows: Sequence[Row]) -> list[str]:
    """Microseconds by M of each weight, with the first proposal of the heuristic."""
    found: dict[tuple[str, int, int], dict[int, float]] = {}
    for r in rows:
        if r.operator == "gemm" and r.auto and r.m and r.n and r.k:
            found.setdefault((r.format, r.n, r.k), {})[r.m] = r.us
    lines = []
    for (name, n, k), by_m in found.items():
        largest = max(by_m)
        reached = 2e-6 * largest * n * k / by_m[largest]
        lines.append((name, n, k, ", ".join(f"{m}: {us:.1f}" for m, us in sorted(by_m.items())), f"{reached:.0f} at {largest}"))
    return _table(("format", "N", "K", "us by M", "TFLOP/s at M"), lines)


def report_text(run: Run, fitted: Sequence[str]) -> str:
    """The whole report in Markdown: notes, guidelines, ladders, comparison, bandwidth, launches, products, fit."""
    device = run.conditions.get("device", "")
    title = f"# {device}{' (stand-in driver: every time is invented)' if run.stand_in else ''}"
    parts = (
        ("What the reader should know", [f"- {note}" for note in dict.fromkeys(run.notes)] or ["- nothing unusual"]),
        ("Align G (k + 1) with the tile", edges(run.rows)),
        ("k = 128 / G - 1", fullest(run.rows)),
        ("Beside torch", beside(run.rows)),
        ("Ladders", ladders(run.rows)),
        ("Bandwidth", bandwidths(run.rows)),
        ("Launch floor", launches(run.rows)),
        ("Matrix products", products(run.rows)),
        ("Conditions", ["```json", json.dumps(run.conditions, indent=1, default=str), "```"]),
        ("Fitted", [f"- {line}" for line in fitted] or ["- no profile"]),
    )
    note = f"`{KERNEL}` is this package's own and no engine's: its tiles are {', '.join(map(str, TILES))} rows by construction."
    return "\n".join([title, "", note, *(line for head, body in parts for line in ("", f"## {head}", "", *body)), ""])
