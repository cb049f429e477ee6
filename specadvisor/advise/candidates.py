"""The drafters of a question and the survival curve of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from numpy.typing import ArrayLike

from specadvisor.acceptance import Survival
from specadvisor.advise.acceptance_input import Stated, curves
from specadvisor.drafters import FAMILIES, Drafter, legal_drafters, load_drafter
from specadvisor.drafters.ngram import Ngram
from specadvisor.errors import InputError
from specadvisor.ids import ENGINES
from specadvisor.serving import load_engine
from specadvisor.step import Deployment, resident


@dataclass(frozen=True)
class Candidates:
    """``drafters`` that can run here, ``survival`` by name, ``excluded`` names with the reason, ``notes`` for the user.

    ``asked``: the user named them.
    """

    drafters: tuple[Drafter, ...]
    survival: dict[str, Survival]
    excluded: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    asked: bool = False


def candidates(
    deployment: Deployment,
    asked: str | Drafter | Sequence[str | Drafter] | None,
    acceptance: Stated | None,
    workload: str,
    temperature: float,
    modifiers: Sequence[str] = (),
    context: ArrayLike | None = None,
) -> Candidates:
    """Every legal drafter, or the ones asked for; those that cannot run or that a modifier does not fit are left out with
    the reason.

    ``context``: keys of a decode step, which a published acceptance is carried over to (None: taken as published). Raises
    ``InputError`` where none is left, with the reason of the first.
    """
    model, serving = deployment.model, deployment.serving
    excluded: dict[str, str] = {}
    if asked is None:
        wanted: list[Drafter] = legal_drafters(model, serving)
        excluded = _not_ranked(deployment, {drafter.kind for drafter in wanted})
    else:
        items = [asked] if isinstance(asked, str | Drafter) or not isinstance(asked, Iterable) else list(asked)
        if not all(isinstance(item, str | Drafter) for item in items):
            raise InputError("drafters", asked, "names, files or Drafter objects, or None for every legal one")
        if not items:
            raise InputError("drafters", items, "at least one drafter, or None for every legal one")
        wanted = [d if isinstance(d, Drafter) else load_drafter(d, model, serving.id) for d in items]
    if modifiers:
        wanted = _modified(wanted, modifiers, excluded)
    wanted = [replace(drafter, temperature=temperature) for drafter in wanted]
    usable: list[Drafter] = []
    for drafter in _named_apart(wanted):
        reason = drafter.legality(model, serving)
        memory = resident(deployment, drafter.on(deployment))
        if reason is None and not memory.fits:
            reason = f"its {drafter.on(deployment).resident_bytes / 1e9:.1f} GB do not fit beside the target"
        if reason is None:
            usable.append(drafter)
        else:
            excluded[drafter.name] = reason
    if wanted and not usable and (asked is not None or modifiers):
        name, kind = next((drafter.name, drafter.kind) for drafter in wanted)
        reason = excluded[name]
        others = [e for e in ENGINES if e != serving.id and load_engine(e).supports(kind).supported]
        where = "" if serving.supports(kind).supported else f" Engines that run it: {', '.join(others) or 'none'}."
        raise InputError("drafter", name, f"one that {serving.id} can run for {model.name}", f"{reason}.{where}")
    survival, notes = curves(acceptance, usable, workload, temperature, context)
    drafters = tuple(_with_hit(drafter, survival[drafter.name]) for drafter in usable)
    return Candidates(drafters, survival, excluded, tuple(notes), asked is not None)


def _with_hit(drafter: Drafter, curve: Survival) -> Drafter:
    """A look-up with the share of rounds in which it finds something, where that was stated."""
    return replace(drafter, hit=curve.hit) if isinstance(drafter, Ngram) and curve.known and curve.hit else drafter


def _not_ranked(deployment: Deployment, ranked: set[str]) -> dict[str, str]:
    """Why each other family that is ranked by default is not among ``ranked`` here."""
    model, serving = deployment.model, deployment.serving
    reasons: dict[str, str] = {}
    for kind in (k for k, family in FAMILIES.items() if family.ranked and k not in ranked):
        support = serving.supports(kind)
        if not support.supported:
            reasons[kind] = support.note or f"{serving.id} does not run it"
            continue
        try:
            reasons[kind] = load_drafter(kind, model, serving.id).legality(model, serving) or (
                f"{serving.id} verifies chains, where its weights are eagle's: the same drafter"
            )
        except InputError as error:
            reasons[kind] = error.accepted
    return reasons


def _modified(drafters: Sequence[Drafter], modifiers: Sequence[str], excluded: dict[str, str]) -> list[Drafter]:
    """Each drafter with the modifiers; those that one does not fit go into ``excluded``.

    Raises ``InputError`` for text that names no modifier, and the first misfit where all are.
    """
    from specadvisor.drafters.modifiers import parse_modifier

    parsed = [parse_modifier(text) for text in modifiers]
    found: list[Drafter] = []
    first: InputError | None = None
    for drafter in drafters:
        try:
            found.append(drafter.with_modifiers(parsed))
        except InputError as error:
            first = first or error
            excluded[drafter.name] = f"{error.field} {error.value} takes {error.accepted.partition(';')[0]}".replace("  ", " ")
    if first and not found:
        raise first
    return found


def _named_apart(drafters: Sequence[Drafter]) -> list[Drafter]:
    """The drafters with a number behind names that occur more than once."""
    seen: dict[str, int] = {}
    result: list[Drafter] = []
    for drafter in drafters:
        seen[drafter.name] = seen.get(drafter.name, 0) + 1
        count = seen[drafter.name]
        result.append(drafter if count == 1 else replace(drafter, name=f"{drafter.name} #{count}"))
    return result
