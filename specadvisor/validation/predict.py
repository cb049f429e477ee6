"""Predictions for every row of a sweep table: speed-ups, step times, the recommended k, and the reason where there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from specadvisor.acceptance import Survival
from specadvisor.acceptance.effects import context_shift, with_gain
from specadvisor.advise.choose import choose_k
from specadvisor.advise.evaluate import Evaluation, baseline, evaluate
from specadvisor.errors import InputError, SpecadvisorError
from specadvisor.ids import resolve
from specadvisor.kernels import error_band
from specadvisor.ranges import FloatArray, Range
from specadvisor.step import Deployment
from specadvisor.validation.groups import Group, groups_of
from specadvisor.validation.setup import Setup, SetupKey, build_setup, catalogue_acceptance, load_of, own_acceptance, setup_key

Acceptance = Literal["row", "once"]
COLUMNS = (
    "case_id", "group_id", "k", "concurrency", "drafter_kind", "predicted_throughput_speedup", "predicted_tpot_speedup", "low",
    "high", "acceptance_source", "chosen_k", "profile_state", "baseline_step_ms", "round_ms", "draft_ms", "acceptance_length",
    "tpot_low", "tpot_high", "favourable", "acceptance_known", "warnings", "reason",
)  # fmt: skip
_STATES = ("measured", "sibling", "extrapolated")


@dataclass(frozen=True)
class _RowLengths:
    """Acceptance lengths of rows that each have a curve of their own, in the place of one ``Survival`` over those rows."""

    lengths: Range

    def range(self, k: Any) -> Range:
        return self.lengths

    def extended(self, k_max: int) -> FloatArray:
        """No curve: a drafter of a sweep carries no modifier that would ask for one."""
        return np.full(k_max, np.nan)


def predict(
    table: pd.DataFrame,
    configs: Sequence[str],
    acceptance: Acceptance = "row",
    adjust: Callable[[Setup], Setup] = lambda setup: setup,
) -> pd.DataFrame:
    """One row per row of ``table`` (see ``read_sweeps``), columns ``COLUMNS``; a row that cannot be predicted has a reason.

    ``acceptance``: ``row`` uses what each row measured; ``once`` only one row per case, drafter and tree (the lowest
    concurrency, there the largest k with a list, else with a length). Rows without any take the catalogue's prior.
    ``adjust`` may change a setup before it is evaluated: fits of serving parameters use it.
    """
    rows: list[Any] = list(table.itertuples())
    given = _shared_rows(rows) if acceptance == "once" else _nearest_rows(rows)
    found: dict[int, dict[str, Any]] = {}
    curves: dict[int, Survival | None] = {}
    by_setup: dict[SetupKey, list[Any]] = {}
    for row in rows:
        try:
            if not row.concurrency >= 1:
                raise InputError("concurrency", row.concurrency, "1 or more requests in flight")
            curves[row.Index] = _curve(row, given.get(row.Index))
            by_setup.setdefault(setup_key(row), []).append(row)
        except SpecadvisorError as error:
            found[row.Index] = {"reason": str(error)}
    for key, members in by_setup.items():
        found.update(_predict_members(key, members, curves, configs, adjust))
    result = pd.DataFrame([found[row.Index] for row in rows], index=table.index)
    for name in ("case_id", "group_id", "k", "concurrency", "drafter_kind"):
        result[name] = table[name]
    result = result.reindex(columns=list(COLUMNS))
    for name in ("reason", "warnings", "acceptance_source", "profile_state"):
        result[name] = result[name].astype(object).where(result[name].notna(), "")
    return with_choice(result, table)


def _predict_members(
    key: SetupKey,
    rows: list[Any],
    curves: Mapping[int, Survival | None],
    configs: Sequence[str],
    adjust: Callable[[Setup], Setup],
) -> dict[int, dict[str, Any]]:
    """The rows of one setup; where one of them spoils the evaluation, each on its own."""
    try:
        setup = adjust(build_setup(key, tuple(configs)))
    except SpecadvisorError as error:
        return {row.Index: {"reason": str(error)} for row in rows}
    try:
        return _predict_setup(setup, rows, curves)
    except SpecadvisorError as error:
        if len(rows) == 1:
            return {rows[0].Index: {"reason": str(error)}}
        return {i: found for row in rows for i, found in _predict_members(key, [row], curves, configs, adjust).items()}


def _curve(row: Any, given: Any) -> Survival | None:
    """The acceptance measured in row ``given``, moved to this row's context and named so where that is another row."""
    curve = own_acceptance(given) if given is not None else None
    if curve is None or given.Index == row.Index:
        return curve
    kind = resolve("drafter", row.drafter_kind)
    curve = with_gain(curve, context_shift(kind, load_of(row).context, load_of(given).context), int(given.k))
    return replace(curve, source=f"{curve.source} at k = {given.k}, concurrency {given.concurrency:g}")


def _nearest_rows(rows: Sequence[Any]) -> dict[int, Any]:
    """For each row itself where it has an acceptance, else the row of its group with the nearest k that has one.

    A run at one k tells the acceptance at the others of the same setting; absent where the group has none.
    """
    measured: dict[str, list[Any]] = {}
    for row in rows:
        if row.survival or row.accept_len == row.accept_len:
            measured.setdefault(row.group_id, []).append(row)
    return {
        row.Index: min(measured[row.group_id], key=lambda other: (abs(other.k - row.k), not other.survival))
        for row in rows
        if row.group_id in measured
    }


def _shared_rows(rows: Sequence[Any]) -> dict[int, Any]:
    """For each row the one of its case, drafter and tree whose acceptance stands for all of them; absent where none has any."""
    best: dict[tuple[str, ...], tuple[tuple[float, ...], Any]] = {}
    for row in rows:
        has_list = bool(row.survival)
        if not has_list and row.accept_len != row.accept_len:
            continue
        rank = (-row.concurrency, has_list, row.k, -load_of(row).context)
        if _case(row) not in best or rank > best[_case(row)][0]:
            best[_case(row)] = (rank, row)
    return {row.Index: best[_case(row)][1] for row in rows if _case(row) in best}


def _case(row: Any) -> tuple[str, ...]:
    """Case, drafter (its name, where the notes give one) and tree."""
    named = re.search(r"drafter: ([^;]+)", row.notes)
    return row.case_id, row.drafter_kind, row.drafter_config, named[1].strip() if named else "", row.tree


def _predict_setup(setup: Setup, rows: list[Any], curves: Mapping[int, Survival | None]) -> dict[int, dict[str, Any]]:
    """All rows of one setup in one vectorised evaluation."""
    priors: dict[tuple[str, str, float], Survival] = {}
    used: list[Survival] = []
    for row in rows:
        curve = curves[row.Index]
        if curve is None:
            condition = (row.source_url, row.workload, row.temperature if row.temperature == row.temperature else 0.0)
            curve = priors.get(condition) or priors.setdefault(condition, catalogue_acceptance(row, setup.drafter))
        used.append(curve)
    ranges = [curve.range(int(row.k)) for curve, row in zip(used, rows, strict=True)]
    lengths = Range(*(np.array([float(getattr(r, part)) for r in ranges]) for part in ("low", "mid", "high")))
    loads = [load_of(row) for row in rows]
    drafter = replace(setup.drafter, k_max=max(setup.drafter.k_max, *(int(row.k) for row in rows)))
    k, concurrency = (np.array([getattr(row, n) for row in rows], dtype=float) for n in ("k", "concurrency"))
    context, isl, osl = (np.array([getattr(load, n) for load in loads]) for n in ("context", "input_tokens", "output_tokens"))
    plain = baseline(setup.plain, concurrency, context, isl, osl)
    result = evaluate(
        setup.speculating, drafter, cast(Survival, _RowLengths(lengths)), k, concurrency, context, isl, osl, plain=plain
    )
    figures = _figures(result, len(rows))
    state = profile_state(setup.plain)
    answers = {}
    for i, (row, curve, load) in enumerate(zip(rows, used, loads, strict=True)):
        warnings = [note for note in (load.note, curve.beyond(int(row.k))) if note]
        if row.concurrency_kind == "open_loop":
            warnings.append("open-loop arrivals: predicted as if that many requests were always in flight")
        answers[row.Index] = {
            **{name: float(values[i]) for name, values in figures.items()},
            "acceptance_source": curve.source,
            "acceptance_known": curves[row.Index] is not None,
            "profile_state": state,
            "warnings": "; ".join(warnings),
        }
    return answers


def _figures(result: Evaluation, n: int) -> dict[str, FloatArray]:
    """The predicted figures as flat arrays over the rows."""
    figures = {
        "predicted_throughput_speedup": result.throughput_speedup.mid,
        "predicted_tpot_speedup": result.tpot_speedup.mid,
        "low": result.throughput_speedup.low,
        "high": result.throughput_speedup.high,
        "tpot_low": result.tpot_speedup.low,
        "tpot_high": result.tpot_speedup.high,
        "baseline_step_ms": 1e3 * result.baseline.total_s,
        "round_ms": 1e3 * result.round_s,
        "draft_ms": 1e3 * result.draft_s,
        "acceptance_length": result.acceptance_length.mid,
        "favourable": result.favourable,
    }
    return {name: np.broadcast_to(values, (n,)) for name, values in figures.items()}


def profile_state(deployment: Deployment) -> str:
    """The least certain state of the kernel parameters that decide the deployment: measured, sibling or extrapolated."""
    model, gpu, engine = deployment.model, deployment.gpu, deployment.serving.id
    states = [
        error_band(gpu, "gemm", model.weight_format, engine)[2],
        error_band(gpu, "attention", deployment.kv_format, engine)[2],
    ]
    return max(states, key=_STATES.index)


def with_choice(result: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Adds ``chosen_k``: what the advice would run among each group's measured k, 0 included where there is a baseline."""
    parts = dict(tuple(result.assign(row=np.arange(len(result))).sort_values("k").groupby("group_id")))
    chosen = np.full(len(result), -1)
    for name, group in groups_of(table).items():
        members = parts[name]
        usable = members[members.reason == ""]
        if not usable.empty:
            chosen[members.row] = _chosen(group, usable)
        elif group.has_baseline:
            chosen[members.row] = 0
    result["chosen_k"] = pd.array(chosen, dtype="Int64")
    result.loc[chosen < 0, "chosen_k"] = pd.NA
    return result


def _chosen(group: Group, rows: pd.DataFrame) -> int:
    names = (
        ("tpot_low", "predicted_tpot_speedup", "tpot_high")
        if group.metric == "tpot"
        else ("low", "predicted_throughput_speedup", "high")
    )
    low, mid, high = (rows[name].to_numpy(float) for name in names)
    if not group.has_baseline:
        return int(rows.k.to_numpy()[int(np.argmax(mid))])
    known = bool(rows.acceptance_known.all())
    favourable = mid * rows.favourable.to_numpy(float)
    return choose_k(rows.k.to_numpy(), Range(low, mid, high), acceptance_known=known, favourable=favourable).k
