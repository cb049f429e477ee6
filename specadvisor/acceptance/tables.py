"""The catalogue and its priors as plain rows, for listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specadvisor.acceptance.catalogue import Row, load_rows, load_sources, read_rows
from specadvisor.acceptance.lookup import LOOKUPS, implied_hit
from specadvisor.acceptance.posterior import AcceptanceFit
from specadvisor.acceptance.priors import prior, shipped_table
from specadvisor.acceptance.rules import left_out, reasons
from specadvisor.acceptance.survival import REFERENCE_K, Survival
from specadvisor.acceptance.workloads import parse_mix
from specadvisor.errors import InputError, nearest
from specadvisor.ids import DRAFTERS

LENGTHS_AT = (1, 3, 5, 7)


def prior_rows(
    kinds: Sequence[str] = DRAFTERS, workload: str | Mapping[str, float] = "mixed", temperature: float = 0.0,
    exclude_sources: Sequence[str] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """One row per kind: AL at some k with its 80% interval, and how many rows and sources are behind it."""
    rows = []
    for kind in kinds:
        curve = prior(kind, workload, temperature, exclude_sources=exclude_sources)
        interval = curve.range(LENGTHS_AT)
        cells = [shipped_table().cells[curve_kind, name] for curve_kind in (kind,) for name in parse_mix(workload)]
        row: dict[str, Any] = {"kind": kind, "workload": _mix_text(workload), "temperature": temperature}
        for i, k in enumerate(LENGTHS_AT):
            row |= {f"length_{k}_low": float(interval.low[i]), f"length_{k}": float(interval.mid[i])}
            row[f"length_{k}_high"] = float(interval.high[i])
        row["hit"] = implied_hit(curve) if kind in LOOKUPS else None
        rows.append(row | {"rows": sum(cell.rows for cell in cells), "sources": max(cell.sources for cell in cells)})
    return rows


def rows_behind_prior(kind: str, workload: str | Mapping[str, float] = "mixed") -> list[dict[str, Any]]:
    """The catalogue rows of a kind and workload that enter its prior, with the address of their source."""
    out, mix = left_out(load_rows()), parse_mix(workload)
    return [describe_row(row) for row in load_rows() if row.kind == kind and row.workload in mix and row.id not in out]


def source_rows() -> list[dict[str, Any]]:
    """Every source with the number of its rows, and of those that enter the priors."""
    out = left_out(load_rows())
    listed = []
    for source in load_sources().values():
        own = [row for row in load_rows() if row.source == source.id]
        used = sum(row.id not in out for row in own)
        listed.append(
            {"source": source.id, "date": source.date, "rows": len(own), "in_priors": used, "address": source.address}
        )
    return listed


def rows_of(source: str) -> list[dict[str, Any]]:
    """The rows of a source (id, or part of its id or address), or of a CSV file in the catalogue's columns."""
    if source.lower().endswith(".csv"):
        own = read_rows(Path(source))
        out = left_out(own)
        return [describe_row(row, out) for row in own]
    word = source.lower()
    known = load_sources()
    found = {s.id for s in known.values() if word == s.id}
    found = found or {s.id for s in known.values() if word in s.id or word in s.address.lower()}
    if not found:
        raise InputError("source", source, "an id or a part of an address", nearest(source, known))
    out = left_out(load_rows())
    return [describe_row(row, out) for row in load_rows() if row.source in found]


def describe_row(row: Row, out: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One catalogue row as plain values; ``left_out`` is the reason why it does not enter the priors."""
    known = load_sources().get(row.source)
    rule = (out or {}).get(row.id, "")
    return {
        "id": row.id, "target": row.target, "kind": row.kind, "drafter": row.drafter, "k": row.k, "tree": row.tree,
        "dataset": row.dataset, "workload": row.workload or "", "temperature": row.temperature, "engine": row.engine,
        "length": row.length, "rate": row.rate, "positions": ";".join("" if p is None else f"{p:g}" for p in row.positions),
        "positions_kind": row.positions_kind, "hit_share": row.hit_share,
        "length_given_match": _given_match(row), "how": row.how, "left_out": reasons().get(rule, ""), "notes": row.notes,
        "date": known.date if known else "", "address": known.address if known else "",
    }  # fmt: skip


def _given_match(row: Row) -> float | None:
    return 1 + (row.length - 1) / row.hit_share if row.hit_share and row.length is not None else None


def curve_rows(curve: Survival, k_max: int) -> list[dict[str, Any]]:
    """One row per k: survival, conditional acceptance, AL and its 80% interval; AL given a match where P(hit) is known."""
    s = curve.extended(k_max)
    before = np.concatenate(([1.0], s[:-1]))
    columns = {
        "k": np.arange(1, k_max + 1), "survival": s,
        "conditional": np.divide(s, before, out=np.zeros(k_max), where=before > 0),
    }  # fmt: skip
    interval = curve.range(columns["k"])
    columns |= {"length_low": interval.low, "length": interval.mid, "length_high": interval.high}
    if curve.hit is not None:
        columns["length_given_match"] = 1.0 + (interval.mid - 1.0) / curve.hit
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]


def fit_row(name: str, fit: AcceptanceFit, k_max: int, *, brief: bool = False) -> dict[str, Any]:
    """One fit as plain values: the model's numbers, its lines in words, and the rows of its ``curve``."""
    shape = fit.shape
    hit = _hit(fit)
    return {
        "name": name, "kind": fit.kind, "rounds": fit.rounds, "source": fit.survival.source, "sigma": fit.survival.sigma,
        "first": shape.first, "limit": shape.limit, "rate": shape.rate, "trained_depth": shape.depth, "cliff": shape.cliff,
        "hit": None if hit is None else hit[0], "hit_stated": fit.survival.hit is not None,
        "model": model_lines(fit, brief=brief), "curve": curve_rows(fit.survival, k_max),
    }  # fmt: skip


def length_row(name: str, fit: AcceptanceFit) -> dict[str, Any]:
    """One fit in one line: AL and its interval at some k."""
    interval = fit.survival.range(LENGTHS_AT)
    cells = zip(LENGTHS_AT, *(np.asarray(part).tolist() for part in (interval.mid, interval.low, interval.high)), strict=True)
    return {"name": name, "kind": fit.kind or ""} | {
        f"k = {k}": f"{mid:.2f} ({low:.2f} to {high:.2f})" for k, mid, low, high in cells
    }


def model_lines(fit: AcceptanceFit, *, brief: bool = False) -> list[str]:
    """The fitted model in words; ``brief`` spares the search for easy and hard rounds."""
    shape = fit.shape
    first, limit = f"{shape.first:.3f}", f"{shape.limit:.3f}"
    flat = f"a_j = {first} at every position"
    lines = [flat if first == limit else f"a_j = {limit} + ({first} - {limit}) * {shape.rate:g}^(j-1)"]
    if shape.depth is not None and shape.cliff < 1:
        lines.append(f"past position {shape.depth}, the trained depth, times {shape.cliff:g}")
    by_chance = fit.kind in LOOKUPS or fit.survival.hit is not None
    if not brief and not by_chance and (mix := fit.mixture) is not None:
        lines.append(f"as a mixture: {mix.share:.0%} easy rounds accept {mix.easy:.2f} a token, the others {mix.hard:.2f}")
    if (found := _hit(fit)) is not None:
        hit, k = found
        length = 1.0 + (float(fit.survival.acceptance_length(k)) - 1.0) / hit
        how = "stated" if fit.survival.hit is not None else "implied by the drop after position 1"
        lines.append(f"P(hit) = {hit:.2f} of the rounds found a match ({how}); AL({k}) given a match = {length:.2f}")
    behind = f"{fit.rounds:g} rounds" if fit.rounds is not None else "no counts were given"
    lines.append(f"log standard deviation of AL - 1: {fit.survival.sigma:.3f} ({behind})")
    return [*lines, *fit.survival.notes]


def _hit(fit: AcceptanceFit) -> tuple[float, int] | None:
    """P(hit) of a lookup, and the k at which its length given a match is said; None for other drafters."""
    if fit.survival.hit is None and fit.kind not in LOOKUPS:
        return None
    return implied_hit(fit.survival), fit.survival.measured[1] if fit.survival.measured else REFERENCE_K


def _mix_text(workload: str | Mapping[str, float]) -> str:
    mix = parse_mix(workload)
    return next(iter(mix)) if len(mix) == 1 else ",".join(f"{name}:{share:g}" for name, share in mix.items())
