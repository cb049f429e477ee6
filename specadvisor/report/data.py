"""Reports as plain data: the JSON schema and the tidy rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from specadvisor.advise.recommendation import Curve, Option, Recommendation
from specadvisor.ranges import Range
from specadvisor.step import Deployment

if TYPE_CHECKING:
    from specadvisor.advise.explain import Explanation

SCHEMA_VERSION = 1


def recommendation_dict(rec: Recommendation) -> dict[str, Any]:
    """The JSON form of a recommendation: every field but the raw arrays; numbers that do not exist are null."""
    head = {"schema_version": SCHEMA_VERSION, "deployment": deployment_dict(rec.deployment)}
    names = (
        "load", "headline", "best", "schedule", "guidelines", "drafters", "memory", "warnings", "assumptions",
        "measurement_plan", "excluded", "break_even", "anchors", "leaders", "plain", "ranking",
    )  # fmt: skip
    body = {name: plain(getattr(rec, name)) for name in names}
    body["acceptance_known"] = rec.acceptance_known
    body["cannot_run"] = {name: list(curve.missing) for name, curve in rec.curves.items() if curve.missing}
    body["choices"] = {name: _choices(rec, curve) for name, curve in rec.curves.items()}
    return head | body


def _choices(rec: Recommendation, curve: Curve) -> list[dict[str, Any]]:
    return [
        {
            "concurrency": users,
            "k": c.k,
            "gain": plain(c.gain),
            "plateau": list(c.plateau),
            "cautious_k": c.cautious,
            "verdict": c.verdict,
            "trial": c.trial,
        }
        for users, c in zip(rec.load.concurrency, curve.choices, strict=True)
    ]


def explanation_dict(e: Explanation) -> dict[str, Any]:
    """The JSON form of an explanation."""
    names = [f.name for f in fields(e) if f.name != "deployment"]
    head = {"schema_version": SCHEMA_VERSION, "deployment": deployment_dict(e.deployment)}
    return head | {name: plain(getattr(e, name)) for name in names}


def deployment_dict(d: Deployment) -> dict[str, Any]:
    """What is deployed, by name."""
    return {
        "model": d.model.name, "total_parameters": d.model.total_parameters, "active_parameters": d.model.active_parameters,
        "weight_format": d.model.weight_format, "kv_format": d.kv_format, "gpu": d.gpu.id, "gpus": d.ranks * d.dp, "tp": d.tp,
        "ep": d.ep, "dp": d.dp, "pp": d.pp, "engine": d.serving.id, "engine_version": d.serving.version, "graphs": d.graphs,
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Dataclasses, tuples and numpy numbers as what JSON has; nan and infinity as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def option_rows(options: Sequence[Option]) -> list[dict[str, Any]]:
    """One flat row per option, units in the names."""
    return [_flat(o) for o in options]


def _flat(option: Option) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in fields(option):
        value = getattr(option, field.name)
        if isinstance(value, Range):
            row |= {field.name: value.mid, f"{field.name}_low": value.low, f"{field.name}_high": value.high}
        else:
            row[field.name] = value
    return row


def column_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every key in the order of first appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))
