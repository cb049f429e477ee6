"""What an engine is asked to run: the engine-neutral input of every emitter."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specadvisor.errors import InputError
from specadvisor.hardware.gpu import Gpu
from specadvisor.ids import ENGINES, resolve
from specadvisor.serving import ServingEngine, Support, load_engine

if TYPE_CHECKING:
    from specadvisor.drafters import Tree
    from specadvisor.drafters.modifiers import Modifier

NO_DRAFTER = "none"
# Placeholders to fill in.
MODEL, DRAFTER, TOKEN_MAP = "MODEL", "DRAFTER", "TOKEN_MAP"
# Modifiers that no engine has a setting for.
WITHOUT_SETTING = {
    "draft-format": "the drafter's checkpoint has to be in that format",
    "variational-training": "the drafter's checkpoint has to be trained that way",
    "dynamic-length": "it is the draft length by load, where the engine takes one",
}

# A command word by word: an option that takes a value is a pair.
Words = list[str | tuple[str, object]]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One deployment to start. ``kind`` "none" or ``k`` 0: plain decoding.

    ``schedule``: (first, last, k) ranges of running requests, ascending and without gaps, first one from 1; empty: always
    ``k``. ``concurrency_max``: most requests that shall run at once on one replica, ``request_tokens``: prompt and output of
    the longest (0: unknown). ``gpu`` and ``tp`` decide which of the engine's default limits bind; without a GPU none is
    written. ``version``: the user's engine, None: the one read. ``foreign_vocabulary``: the draft model has tokens of its own.
    ``bundled``: the target's checkpoint holds the drafter, whatever is usual for its kind.
    ``tree``: what is drafted instead of a chain, to depth k. ``modifiers``: what else the numbers rest on.
    ``model_is``: words for the model where ``model`` is a placeholder.
    """

    kind: str
    k: int
    drafter_path: str | None = None
    model: str = MODEL
    model_is: str = ""
    schedule: tuple[tuple[int, int, int], ...] = ()
    concurrency_max: int = 1
    gpu: Gpu | None = None
    tp: int = 1
    dp: int = 1
    version: str | None = None
    request_tokens: int = 0
    foreign_vocabulary: bool = False
    bundled: bool = False
    tree: Tree | None = None
    modifiers: tuple[Modifier, ...] = ()

    def __post_init__(self) -> None:
        kind = self.kind if self.kind == NO_DRAFTER else resolve("drafter", self.kind)
        object.__setattr__(self, "kind", kind)
        if self.k < 0 or self.concurrency_max < 1 or self.tp < 1 or self.dp < 1:
            given = f"k {self.k}, concurrency {self.concurrency_max}, tp {self.tp}, dp {self.dp}"
            raise InputError("launch plan", given, "k of 0 or more; concurrency, tp and dp of 1 or more")
        expected = 1
        for first, last, k in self.schedule:
            if first != expected or last < first or k < 0:
                accepted = "(first, last, k) ranges from 1 upwards without gaps, k of 0 or more"
                raise InputError("schedule", self.schedule, accepted)
            expected = last + 1

    @property
    def tiers(self) -> tuple[tuple[int, int, int], ...]:
        """The schedule with neighbours of one k joined; one tier without a schedule."""
        tiers: list[tuple[int, int, int]] = []
        for first, last, k in self.schedule or ((1, self.concurrency_max, self.k),):
            if tiers and tiers[-1][2] == k:
                tiers[-1] = (tiers[-1][0], last, k)
            else:
                tiers.append((first, last, k))
        return tuple(tiers)

    @property
    def k_max(self) -> int:
        """The largest k of any tier."""
        return max(k for _, _, k in self.tiers)

    @property
    def speculates(self) -> bool:
        return self.kind != NO_DRAFTER and self.k_max > 0

    @property
    def drafter(self) -> str:
        """Path of the drafter, or a placeholder to fill in."""
        return self.drafter_path or DRAFTER

    def names_drafter(self, without_file: Iterable[str]) -> bool:
        """Whether the engine is told where the drafter is; kinds ``without_file`` are part of the target or of the engine."""
        return bool(self.drafter_path) or not (self.bundled or self.kind in without_file)

    def placeholder_notes(self, text: str) -> list[str]:
        """What to write for each placeholder in ``text``."""
        meanings = {
            MODEL: f"a checkpoint of {self.model_is or 'the target'}",
            DRAFTER: f"the {self.kind} checkpoint for this target",
            TOKEN_MAP: "the file with the token ids that the draft head keeps",
        }
        return [f"{word}: {meaning}" for word, meaning in meanings.items() if re.search(rf"\b{word}\b", text)]

    def not_written(self, engine: ServingEngine, written: Container[str]) -> list[str]:
        """A note for the tree and for each modifier (by id) that is not among the ``written`` ones."""
        wanted = {"tree": f"tree={self.tree}"} if self.tree else {}
        wanted |= {modifier.id: str(modifier) for modifier in self.modifiers if modifier.id != "tree"}
        why = dict(WITHOUT_SETTING)
        if engine.host_overlap:
            why["overlap-scheduling"] = "on by default"
        return [
            f"not written: {text}: {why.get(id_, f'{engine.id} has no setting for it with {self.kind}')}"
            for id_, text in wanted.items()
            if id_ not in written
        ]

    @property
    def graph_batches(self) -> tuple[tuple[int, int], ...]:
        """(most requests, query tokens) of each tier up to the stated concurrency."""
        return tuple((min(last, self.concurrency_max), k + 1) for first, last, k in self.tiers if first <= self.concurrency_max)


def supported(plan: LaunchPlan, engine: ServingEngine) -> Support:
    """How ``engine`` runs the plan's drafter; raises ``InputError`` naming the engines that do."""
    support = engine.supports(plan.kind)
    if not support.supported:
        others = ", ".join(e for e in ENGINES if load_engine(e).supports(plan.kind).supported) or "none"
        raise InputError(
            "drafter", plan.kind, f"a drafter that {engine.id} runs", f"{support.note}. Engines that run it: {others}."
        )
    return support


def ranks(plan: LaunchPlan, tp_option: str, dp_option: str = "") -> Words:
    """The engine's options for GPUs of a replica and replicas, where there are several."""
    options = ((tp_option, plan.tp), (dp_option, plan.dp))
    return [(option, count) for option, count in options if option and count > 1]


def command(words: Iterable[str | tuple[str, object]]) -> str:
    """A shell command, one option a line: words as they are, (option, value) pairs quoted where needed."""
    lines = [word if isinstance(word, str) else f"{word[0]} {shlex.quote(str(word[1]))}" for word in words]
    return " \\\n    ".join(lines)


def comments(*notes: str) -> str:
    """Notes as shell (and YAML) comment lines."""
    return "".join(f"# {note}\n" for note in notes if note)
