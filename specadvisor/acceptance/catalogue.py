"""The catalogue of published acceptance: one ``Row`` per printed cell, with its source."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import ALIASES, DRAFTERS
from specadvisor.ranges import FloatArray

# Categories as printed, by the workload they stand for; what is missing here measures a condition, not a workload.
CATEGORIES = {
    "math": "math", "math_en": "math", "coding": "coding", "coding_edit": "coding", "coding_agentic": "coding",
    "chat": "chat", "chat_multiturn": "chat", "mt_bench": "chat", "qa": "qa", "stem_qa": "qa", "stem": "qa", "humanities": "qa",
    "overall": "mixed", "average": "mixed", "summarization": "summarization", "rag": "rag", "writing": "writing",
    "prose": "writing", "creative_writing": "writing", "reasoning": "reasoning", "roleplay": "roleplay",
    "multilingual": "multilingual", "multilingual_zh": "multilingual", "math_zh": "multilingual",
    "translation": "multilingual", "random": "random",
}  # fmt: skip
COLUMNS = (
    "id", "source", "target", "kind", "drafter", "k", "tree", "dataset", "category", "temperature", "engine", "length",
    "rate", "positions", "positions_kind", "hit_share", "how", "notes",
)  # fmt: skip
LARGEST_K = 1024
# Printed shares are rounded: one may exceed the one before it by as much.
RISE = 0.005
# Sites that show the results of a paper.
_PAPER_OF_SITE = {"specdecode-bench.github.io": "arxiv.org/abs/2601.11580"}
_SERVED = ("sglang", "vllm", "tensorrt-llm", "vllm-ascend", "llama.cpp", "ninfer", "tilert", "exllamav3", "mlx")
_SPEED_BENCH_SOURCES = ("arxiv-2604.09557", "nemotron-3-super", "nemotron-3-ultra")


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows were transcribed from."""

    id: str
    address: str
    date: str


@dataclass(frozen=True, slots=True)
class Row:
    """One printed cell. ``length`` counts the bonus token; ``positions`` has None where an element was not printed."""

    id: str
    source: str
    target: str
    kind: str
    drafter: str
    k: int | None
    tree: str
    dataset: str
    category: str
    temperature: float | None
    engine: str
    printed_length: float | None
    rate: str
    positions: tuple[float | None, ...]
    positions_kind: str
    hit_share: float | None
    how: str
    notes: str

    @property
    def workload(self) -> str | None:
        """The workload id the category stands for, None if it stands for none.

        The mean over a paper's own task sets (mostly mathematics and code) is not a mixed load.
        """
        if self.category in ("overall", "average"):
            dataset = self.dataset.lower()
            balanced = "spec-bench" in dataset or self.setting == "speed_bench"
            if not balanced and (self.setting == "reference" or dataset.startswith(("mean", "(paper"))):
                return None
        return CATEGORIES.get(self.category)

    @property
    def setting(self) -> str:
        """``speed_bench``, ``served`` (other loads on a serving engine) or ``reference`` (papers' own harnesses)."""
        if "speed-bench" in self.dataset.lower() or self.source in _SPEED_BENCH_SOURCES:
            return "speed_bench"
        return "served" if self.engine in _SERVED else "reference"

    @property
    def survival(self) -> FloatArray | None:
        """s_1..s_n over all rounds, None without a complete list of known kind."""
        if not self.positions or None in self.positions or self.positions_kind not in ("cumulative", "conditional"):
            return None
        values = np.array(self.positions, dtype=float)
        s = values if self.positions_kind == "cumulative" else np.cumprod(values)
        return np.asarray(s if self.hit_share is None else s * self.hit_share)

    @property
    def conditional(self) -> FloatArray | None:
        """a_1..a_n over all rounds, nan where not printed; None without a list of known kind.

        Between gaps, shares of a cumulative list give no conditional ones: it must be complete.
        """
        if (s := self.survival) is not None:
            before = np.concatenate(([1.0], s[:-1]))
            return np.asarray(np.divide(s, before, out=np.full(s.size, np.nan), where=before > 0))
        if self.positions_kind != "conditional" or not self.positions or self.hit_share is not None:
            return None
        return np.array([np.nan if a is None else a for a in self.positions])

    @property
    def length(self) -> float | None:
        """AL over all rounds: as printed, or 1 + the sum of a list that covers k."""
        if self.printed_length is not None and self.hit_share is None:
            return self.printed_length
        s = self.survival
        return None if s is None or (self.k is not None and s.size < self.k) else 1.0 + float(s.sum())


def _lines(name: str) -> Iterator[dict[str, str]]:
    return read_table(profiles_dir() / "acceptance" / name)


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file with ``#`` lines of explanation above its header; raises ``InputError`` for doubled columns."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(line for line in file if not line.startswith("#"))
        names = [name.strip() for name in reader.fieldnames or ()]
        if doubled := sorted({name for name in names if name and names.count(name) > 1}):
            raise InputError("columns", ", ".join(doubled), "each column once", f"In {path}.")
        yield from reader


def parse_row(cells: dict[str, str]) -> Row:
    """A ``Row`` out of the catalogue's columns; raises ``InputError`` for a number that none can be."""
    where = f"Row {cells.get('id', '?')} of the catalogue."

    def number(column: str, low: float, high: float, accepted: str) -> float | None:
        text = cells.get(column, "")
        try:
            value = float(text) if text else None
        except ValueError:
            value = float("nan")
        if value is not None and not low <= value <= high:
            raise InputError(column, text, accepted, where)
        return value

    kind = ALIASES["drafter"].get(cells["kind"], cells["kind"])
    k = number("k", 1, LARGEST_K, f"a whole number from 1 to {LARGEST_K}")
    if k is not None and k != int(k):
        raise InputError("k", cells["k"], f"a whole number from 1 to {LARGEST_K}", where)
    return Row(
        cells["id"], cells["source"], cells["target"], kind, cells["drafter"], None if k is None else int(k), cells["tree"],
        cells["dataset"], cells["category"], number("temperature", 0, 100, "a number of at least 0"), cells["engine"],
        number("length", 1, LARGEST_K + 1, "a number of at least 1 (the bonus token is counted)"), cells["rate"],
        _positions(cells, where), cells["positions_kind"], number("hit_share", 1e-9, 1, "a share above 0, at most 1"),
        cells["how"], cells["notes"],
    )  # fmt: skip


def _positions(cells: dict[str, str], where: str) -> tuple[float | None, ...]:
    text = cells["positions"]
    try:
        found = tuple(float(part) if part.strip() else None for part in text.split(";")) if text else ()
    except ValueError:
        found = (float("nan"),)
    known = [value for value in found if value is not None]
    if not all(0 <= value <= 1 for value in known):
        raise InputError("positions", text, "numbers between 0 and 1, semicolons between them", where)
    if cells["positions_kind"] == "cumulative" and any(b > a + RISE for a, b in pairwise(known)):
        raise InputError("positions", text, "cumulative shares that never rise", where)
    return found


@cache
def load_rows() -> tuple[Row, ...]:
    """Every transcribed row, those the rules leave out included."""
    return tuple(parse_row(cells) for cells in _lines("rows.csv"))


@cache
def targets_by_kind() -> dict[str, frozenset[str]]:
    """Names of the targets, in small letters, that each kind has rows for."""
    found: dict[str, set[str]] = {}
    for cells in _lines("targets.csv"):
        found.setdefault(cells["kind"], set()).add(cells["target"])
    return {name: frozenset(targets) for name, targets in found.items()}


@cache
def load_sources() -> dict[str, Source]:
    """Sources by id."""
    return {cells["source"]: Source(cells["source"], cells["address"], cells["date"]) for cells in _lines("sources.csv")}


def same_source(address: str) -> tuple[str, ...]:
    """Ids of the catalogue's sources that share a publication or repository with ``address``.

    Predictions of measurements from there must not use priors that hold them (``prior(exclude_sources=...)``).
    """
    wanted = _publication(address)
    return tuple(source.id for source in load_sources().values() if wanted and _publication(source.address) == wanted)


def _publication(address: str) -> str:
    """arXiv id, or owner/repository, or else the host."""
    text = address.lower()
    for site, publication in _PAPER_OF_SITE.items():
        text = text.replace(site, publication)
    if found := re.search(r"arxiv\.org/abs/([\d.]+)", text):
        return found[1]
    if found := re.search(r"(?:github|huggingface)\.(?:com|co)/([^/\s]+/[^/\s]+)", text):
        return found[1]
    found = re.match(r"https?://([^/\s]+)", text)
    return found[1] if found else text.strip()


def read_rows(path: str | Path) -> list[Row]:
    """Rows of a file in the catalogue's own columns, such as a user's collection of measurements.

    Only ``kind`` and one of ``length``, ``rate`` and ``positions`` have to be filled. Raises ``InputError``.
    """
    try:
        table = list(read_table(Path(path)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("catalogue file", str(path), "a readable CSV file", str(error)) from None
    if not table or not {"kind", "length"} <= table[0].keys():
        raise InputError("catalogue file", str(path), f"columns {', '.join(COLUMNS)} with at least one row")
    blank = dict.fromkeys(COLUMNS, "")
    seen: dict[str, int] = {}
    rows = []
    for n, cells in enumerate(table, 1):
        if None in cells:
            raise InputError("catalogue file", str(path), "as many cells as columns", f"Row {n} has more.")
        full = blank | {name: cell or "" for name, cell in cells.items()}
        given = full["id"] or f"row {n}"
        seen[given] = seen.get(given, 0) + 1
        rows.append(parse_row(full | {"id": given if seen[given] == 1 else f"{given} (row {n})"}))
    return rows


def known_kind(row: Row) -> bool:
    """Whether the row's drafter is one of the product's kinds."""
    return row.kind in DRAFTERS
