"""Which engine's settings can be written, and what writes them; only that engine's module is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from specadvisor.engines.plan import LaunchPlan, comments
from specadvisor.errors import InputError
from specadvisor.ids import EMITTERS, resolve


def emitter(engine_id: str) -> Callable[[LaunchPlan], str]:
    """What writes settings for ``engine_id``; raises ``InputError`` for an engine without one."""
    engine = resolve("engine", engine_id)
    if engine not in EMITTERS:
        raise InputError("engine", engine_id, ", ".join(EMITTERS), f"Settings of {engine} are not written.")
    write: Callable[[LaunchPlan], str] = import_module(f"specadvisor.engines.{engine}").flags
    return write


def flags(engine_id: str, plan: LaunchPlan) -> str:
    """Settings of ``plan`` in the language of ``engine_id``, ready to paste; says in comments which versions it is for.

    Raises ``InputError`` for an engine without an emitter, and for a drafter that the engine does not run.
    """
    versions, rest = emitter(engine_id)(plan).split("\n", 1)
    return f"{versions}\n{comments(*plan.placeholder_notes(rest))}{rest}"
