"""What is published about each technique, as text: ``profiles/drafters/<kind>.toml`` and ``modifiers.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from specadvisor.data_files import profiles_dir

if TYPE_CHECKING:
    from specadvisor.drafters.tree import Tree

OPERATING_CLASSES = {
    0: "no extra weights: CPU time and CPU memory only",
    1: "native head, ships and moves with the model",
    2: "one extra file, one layer",
    3: "extra file of 1-3 B parameters, injected keys and values, a recent engine",
    4: "second model with its own cache",
    5: "extra GPUs",
}
TRAINING_CLASSES = {
    "none": "nothing to train",
    "native": "trained with the model; a short fine-tune at most",
    "low": "hours on one node",
    "medium": "about a day on one node",
    "high": "days, or several nodes, or tens of TB of cached states",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A place where a statement can be read."""

    label: str
    url: str


@dataclass(frozen=True)
class Facts:
    """One technique in words. ``shape`` holds the usual sizes that a config may override; ``operating_text`` says what a

    modifier adds to running its drafter (drafters have a class). ``research``: a family that no serving engine runs.
    """

    id: str
    title: str
    structure: str
    cost: str
    acceptance: str
    legality: str
    sources: tuple[Source, ...]
    research: bool = False
    operating_class: int = 0
    operating_text: str = ""
    training_class: str = "none"
    training: tuple[str, ...] = ()
    shape: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operating(self) -> str:
        return self.operating_text or OPERATING_CLASSES[self.operating_class]

    def incomplete(self) -> list[str]:
        """Names of the required statements that are missing or empty."""
        required = ("title", "structure", "cost", "acceptance", "legality", "sources")
        missing = [name for name in required if not getattr(self, name)]
        missing += [f"source url of {s.label}" for s in self.sources if not s.url.startswith("https://")]
        if self.training_class not in TRAINING_CLASSES:
            missing.append("training_class")
        if self.operating_class not in OPERATING_CLASSES:
            missing.append("operating_class")
        return missing


def _facts(id_: str, table: Mapping[str, Any]) -> Facts:
    values = dict(table)
    values["sources"] = tuple(Source(**source) for source in values.get("sources", ()))
    values["training"] = tuple(values.get("training", ()))
    return Facts(id=id_, **values)


@cache
def drafter_facts(kind: str) -> Facts:
    """Facts of one drafter family; ``KeyError`` if the file is missing (a registry test checks that none is)."""
    path = profiles_dir() / "drafters" / f"{kind}.toml"
    if not path.is_file():
        raise KeyError(kind)
    return _facts(kind, tomllib.loads(path.read_text(encoding="utf-8")))


@cache
def modifier_facts() -> Mapping[str, Facts]:
    """Facts of every modifier, by id."""
    text = (profiles_dir() / "drafters" / "modifiers.toml").read_text(encoding="utf-8")
    return {id_: _facts(id_, table) for id_, table in tomllib.loads(text).items() if id_ != "out_of_scope"}


@cache
def out_of_scope() -> Mapping[str, Mapping[str, Any]]:
    """Techniques that are named but not modelled, each with the reason."""
    text = (profiles_dir() / "drafters" / "modifiers.toml").read_text(encoding="utf-8")
    result: Mapping[str, Mapping[str, Any]] = tomllib.loads(text)["out_of_scope"]
    return result


@cache
def engine_facts() -> Mapping[str, Any]:
    """How engines run drafters where they differ (``engines.toml``)."""
    return tomllib.loads((profiles_dir() / "drafters" / "engines.toml").read_text(encoding="utf-8"))


def tree_engines(tree: Tree) -> tuple[str, ...]:
    """Engines whose target pass takes the mask of such a tree."""
    numbers = modifier_facts()["tree"].shape
    return tuple(numbers["block_engines" if tree.best_first else "engines"])
