"""Read ``profiles/engines/<id>.toml`` (grammar in ``profiles/engines/README.md``) into a ``ServingEngine``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.ids import resolve
from specadvisor.serving.attention import AttentionBackend
from specadvisor.serving.engine import AttentionRule, ServingEngine
from specadvisor.serving.facts import STATES, DrafterFacts, Fact, version_key
from specadvisor.serving.slots import StateRule


def load_engine(engine_id: str, version: str | None = None) -> ServingEngine:
    """The engine ``engine_id`` (id or alias); ``version`` is the user's, else the one the facts were read from.

    Drafter support follows the version, and so do the facts that ``[[before]]`` tables give for older releases; the others
    stay those of the version read, and ``notes`` says so. A text that names no release (a branch, a commit, a development
    build 0.1.dev) counts as the version read.
    """
    engine = _read(resolve("engine", engine_id))
    if version is not None and not isinstance(version, str):
        raise InputError("engine version", version, f"text such as {engine.version!r}")
    if version is None or version_key(version) == version_key(engine.version):
        return engine
    if not version_key(version) or (".dev" in version and version_key(version) <= (0, 1)):
        note = f"{version!r} names no release of {engine.id}; taken as {engine.version}."
        return replace(engine, notes=(*engine.notes, note))
    note = f"Facts were read from {engine.id} {engine.version}; {version} may differ in kernels, limits and defaults."
    older = {
        name: fact.value
        for until, facts in engine.before
        if version_key(version) < version_key(until)
        for name, fact in facts.items()
    }
    return replace(engine, version=version, notes=(*engine.notes, note), **older)


@cache
def _read(engine_id: str) -> ServingEngine:
    path = profiles_dir() / "engines" / f"{engine_id}.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    facts = {name: _fact(name, row, engine_id) for name, row in data["facts"].items()}
    return ServingEngine(
        id=engine_id,
        version=data["version"],
        versions=data["versions"],
        attention=tuple(_attention_rule(row) for row in data["attention"]),
        graph_rules=data["graphs"],
        admission=tuple(data["admission"]),
        counts_budget=data["token_budget"].get("counts_decoding", False),
        slot_rules=data.get("slots", {"kind": "verified"}),
        states=StateRule(**data.get("states", {})),
        token_budgets=tuple((float(least), int(tokens)) for least, tokens in data["token_budget"]["steps"]),
        drafters={kind: DrafterFacts(**row) for kind, row in data["drafters"].items()},
        facts=facts,
        before=tuple(
            (str(row["version"]), {name: _fact(name, value, engine_id) for name, value in row.items() if name != "version"})
            for row in data.get("before", ())
        ),
        notes=tuple(data.get("notes", ())),
        **{name: fact.value for name, fact in facts.items()},
    )


def _fact(name: str, row: Mapping[str, Any], engine_id: str) -> Fact:
    if row["state"] not in STATES:
        raise InputError(f"{engine_id}.{name}", row["state"], ", ".join(STATES))
    return Fact(row["value"], row["state"], row["source"])


def _attention_rule(row: Mapping[str, Any]) -> AttentionRule:
    conditions = {"kind", "sm_min", "sm_max", "head_dim_max", "kv_formats"}
    lists = {"tile_rows", "head_slots"}
    backend: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in row.items() if k not in conditions}
    return AttentionRule(
        backend=AttentionBackend(**backend),
        kind=row.get("kind", "gqa"),
        sm_min=row.get("sm_min", 0),
        sm_max=row.get("sm_max", 999),
        head_dim_max=row.get("head_dim_max", 10_000),
        kv_formats=tuple(row.get("kv_formats", ())),
    )
