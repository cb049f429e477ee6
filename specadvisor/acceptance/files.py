"""Fits of whole files: a CSV in the catalogue's columns, or a result folder of specdec_bench."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from specadvisor.acceptance.catalogue import Row, read_rows
from specadvisor.acceptance.fit import fit_acceptance
from specadvisor.acceptance.posterior import BLOCK_KINDS, AcceptanceFit
from specadvisor.acceptance.rules import row_length, unfit
from specadvisor.errors import InputError
from specadvisor.ids import resolve


@dataclass(frozen=True, slots=True)
class FileFits:
    """Fits by name (a row's id, or ``run 1``), and what is to be said beside them: rows left out, notes of runs."""

    fits: dict[str, AcceptanceFit]
    notes: tuple[str, ...]


def fit_file(path: Path, kind: str | None = None) -> FileFits:
    """One fit per usable row of a ``.csv`` file, or per run of specdec_bench; ``kind`` in place of a run's own.

    Raises ``InputError`` where nothing can be fitted.
    """
    return _rows(path) if path.suffix.lower() == ".csv" else _runs(path, kind)


def _rows(path: Path) -> FileFits:
    rows = read_rows(path)
    fits: dict[str, AcceptanceFit] = {}
    out: dict[str, str] = {}
    for row in rows:
        if reason := unfit(row):
            out[row.id] = reason
            continue
        try:
            fits[row.id] = _fit_once(*_measured(row))
        except InputError as error:
            raise InputError(f"{row.id}: {error.field}", error.value, error.accepted, error.hint) from None
    if not fits:
        name, reason = next(iter(out.items()))
        left = f"All {len(out)} are left out" if len(out) > 1 else "It is left out"
        raise InputError("catalogue file", str(path), "at least one row that can be fitted", f"{left}; {name}: {reason}.")
    return FileFits(fits, tuple(f"{name}: not fitted ({reason})" for name, reason in out.items()))


def _measured(row: Row) -> tuple[str, int | None, float | None, tuple[float, ...], float | None]:
    """(kind, k, length, s, hit) of a row; its list is given a match where the row states the share of matches."""
    s = row.survival
    if s is None:
        return row.kind, row.k, row_length(row), (), None
    given = s if row.hit_share is None else s / row.hit_share
    return row.kind, None, None, tuple(np.minimum.accumulate(np.clip(given, 0, 1)).tolist()), row.hit_share


@lru_cache(maxsize=65536)
def _fit_once(kind: str, k: int | None, length: float | None, s: tuple[float, ...], hit: float | None) -> AcceptanceFit:
    """Files repeat cells: each is fitted once."""
    if length is not None and k is not None:
        return fit_acceptance(lengths={k: length}, kind=kind)
    return fit_acceptance(cumulative=s, kind=kind, hit=hit)


def _runs(path: Path, kind: str | None) -> FileFits:
    from specadvisor.engines.specdec_bench import read_specdec_bench

    kind = None if kind is None else resolve("drafter", kind)
    fits: dict[str, AcceptanceFit] = {}
    notes: list[str] = []
    for n, run in enumerate(read_specdec_bench(path), 1):
        own: Any = kind or run.kind
        block = run.k + 1 if own in BLOCK_KINDS and run.settings.get("block_size") is not None else None
        fits[f"run {n}"] = fit_acceptance(cumulative=run.survival.s.tolist(), rounds=run.steps, kind=own, block_size=block)
        notes += [f"run {n}: {note}" for note in run.survival.notes]
    return FileFits(fits, tuple(notes))
