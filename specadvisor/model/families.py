"""The table of model families (``profiles/models/families.toml``) as typed rows."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from specadvisor.data_files import profiles_dir, user_dir
from specadvisor.errors import InputError, nearest
from specadvisor.model.config import Config

NAMES = {
    "attention": "self_attn", "mlp": "mlp", "moe": "mlp", "router": "gate", "experts": "experts", "shared": "shared_experts",
    "head": "lm_head",
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """One row; the fields are explained at the top of the table."""

    model_type: str
    mixer: str = "gqa"
    linear: str = ""
    blocks: str = "pair"
    gated: bool = True
    qk_norm: str = ""
    bias: str = "config"
    windowed: bool = False
    sinks: bool = False
    head_gate: bool = False
    norms: int = 2
    shared_gate: bool = False
    expert_bias: bool = False
    tied: bool = False
    mtp: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def name(self, part: str) -> str:
        """The checkpoint's module name of ``part``."""
        return self.names.get(part, NAMES[part])


@cache
def rows(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of one table file; empty where there is none."""
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError("model families", str(path), "a TOML table", str(error)) from None


def table() -> dict[str, dict[str, Any]]:
    """Shipped rows, with the user's own on top."""
    return {**rows(profiles_dir() / "models" / "families.toml"), **rows(user_dir() / "families.toml")}


def family(config: Config) -> Family:
    """The row for ``config``; raises ``InputError`` with the nearest families and what the config lacks."""
    known = table()
    for name in (config.model_type, str(config.text.get("model_type", ""))):
        if name in known:
            return parse(name, known)
    field_, value = f"{config.source}: model_type", config.model_type or "nothing"
    raise InputError(field_, value, ", ".join(sorted(known)), advice(config, known))


def parse(name: str, known: Mapping[str, Mapping[str, Any]]) -> Family:
    """The row ``name`` on top of the row it is ``like``."""
    row = dict(known[name])
    base = Family(name)
    if parent := row.pop("like", None):
        if parent not in known or parent == name:
            raise InputError(f"model family {name}: like", parent, "another row of the table", nearest(str(parent), known))
        base = replace(parse(parent, known), model_type=name)
    accepted = {f.name for f in fields(Family)} - {"model_type"}
    if unknown := row.keys() - accepted:
        raise InputError(f"model family {name}", ", ".join(sorted(unknown)), ", ".join(sorted(accepted)))
    for merged in ("names", "defaults"):
        row[merged] = {**getattr(base, merged), **row.get(merged, {})}
    return replace(base, **row)


def advice(config: Config, known: Mapping[str, Any]) -> str:
    """What to do about an unknown model type."""
    needed = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    missing = [key for key in needed if config.found(key)[1] is None]
    if config.found("dense_width")[1] is None and config.found("expert_width")[1] is None:
        missing.append("intermediate_size")
    lacks = f" The config also lacks {', '.join(missing)}." if missing else " No key that sets a size is missing."
    name = config.model_type or "my_model"
    row, table_file = f'{name} = {{ like = "..." }}', user_dir() / "families.toml"
    advice_ = f"If it has the shape of a known family, add the row '{row}' to {table_file}."
    return f"{nearest(name, known)}{lacks} {advice_}".strip()
