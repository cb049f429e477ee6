"""How a user states acceptance in text, and which curve each drafter of a ranking gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from specadvisor.acceptance import (
    Survival,
    from_alpha,
    from_conditional,
    from_cumulative,
    from_hit,
    from_length,
    from_lengths,
    from_rate,
)
from specadvisor.advise.published import as_copied, published
from specadvisor.errors import InputError
from specadvisor.ids import ALIASES, DRAFTERS, resolve

if TYPE_CHECKING:
    from specadvisor.drafters import Drafter

FORMS = (
    "conditional:0.8,0.75,0.7 | cumulative:0.8,0.6,0.42 | al:2.2@3 | rate:0.4@3 | alpha:0.7 | hit:0.4,4.6@5 (a lookup's share "
    "of rounds with a match, and its AL given one), each optionally after DRAFTER="
)
Stated = str | Survival | Sequence[str] | Mapping[str, "str | Survival"]


def parse_acceptance(text: str, kind: str | None = None) -> Survival:
    """The survival curve that ``text`` states (see ``FORMS``).

    ``kind`` gives the usual shape where only one number is known. Raises ``InputError``.
    """
    name, colon, value = text.strip().partition(":")
    name = name.strip().lower()
    if not colon and "@" in text:
        name, value = "al", text
    elif not colon:
        bare = re.fullmatch(r"[\d.,;\s]+", text.strip())
        hint = "Say which list it is: conditional: (given the ones before) or cumulative: (all up to here)." if bare else ""
        raise InputError("acceptance", text, FORMS, hint)
    if name in ("conditional", "cumulative"):
        values = [_number(part, text) for part in re.split(r"\s*[,;]\s*|\s+", value.strip())]
        return from_conditional(values) if name == "conditional" else from_cumulative(values)
    if name == "alpha":
        return from_alpha(_number(value, text))
    hit = None
    if name == "hit":
        share, comma, value = value.partition(",")
        if not comma:
            raise InputError("acceptance", text, FORMS, "Write hit:SHARE,AL@k: the share of rounds with a match comes first.")
        hit, value = _number(share, text), value.strip().removeprefix("al:")
    if name not in ("al", "rate", "hit"):
        raise InputError("acceptance", text, FORMS)
    number, at, k = value.partition("@")
    if not at or not re.fullmatch("[0-9]+", k.strip()):
        raise InputError("acceptance", text, FORMS, "Write the number of draft tokens it was measured at after @.")
    if hit is not None:
        return from_hit(hit, _number(number, text), int(k), kind=kind)
    if name == "al":
        return from_length(_number(number, text), int(k), kind=kind)
    return from_rate(_number(number, text), int(k), kind=kind)


def split_drafter(text: str) -> tuple[str, str]:
    """("eagle3", "al:2.2@3") of ``eagle3=al:2.2@3``; ("", text) without a drafter."""
    if not isinstance(text, str):
        raise InputError("acceptance", text, FORMS)
    head, equals, tail = text.partition("=")
    known = head.strip().lower().replace("-", "_")
    if equals and (known in DRAFTERS or head.strip().lower() in ALIASES["drafter"]):
        return resolve("drafter", head), tail
    if equals:
        raise InputError("acceptance", text, FORMS, f"{head.strip()!r} is not a drafter.")
    return "", text


def curves(
    stated: Stated | None,
    drafters: Sequence[Drafter],
    workload: str,
    temperature: float,
    context: ArrayLike | None = None,
) -> tuple[dict[str, Survival], list[str]]:
    """(survival curve by drafter name, notes). What is not stated comes from the catalogue, carried over to ``context``.

    A stated curve was measured with the drafter's tree, without its modifiers, and at the context of the load for all that
    is known. A curve without a drafter belongs to the only drafter; with several it would be a guess which one it was
    measured with.
    """
    by_kind: dict[str, list[str | Survival]] = {}
    items: list[tuple[str, str | Survival]] = []
    if isinstance(stated, Mapping):
        items = [(resolve("drafter", kind), value) for kind, value in stated.items()]
    elif isinstance(stated, Survival):
        items = [("", stated)]
    elif stated is not None:
        texts = [stated] if isinstance(stated, str) or not isinstance(stated, Iterable) else stated
        items = [split_drafter(text) for text in texts]
    for _, value in items:
        if not isinstance(value, str | Survival):
            raise InputError("acceptance", value, FORMS)
    kinds = {d.kind for d in drafters}
    for kind, value in items:
        if not kind and len(kinds) > 1:
            raise InputError(
                "acceptance",
                str(value),
                "a curve that names its drafter, such as eagle3=conditional:0.8,0.7",
                "Or name one --drafter.",
            )
        if not kinds or (kind and kind not in kinds):
            compared = ", ".join(sorted(kinds)) or "none"
            raise InputError("acceptance", kind, f"one of the drafters compared: {compared}")
        by_kind.setdefault(kind or next(iter(kinds)), []).append(value)
    result: dict[str, Survival] = {}
    notes: list[str] = []
    for drafter in drafters:
        given = by_kind.get(drafter.kind)
        if given is None:
            if not drafter.shares_vocabulary:
                raise InputError(
                    "drafter",
                    drafter.name,
                    f"a drafter with the {drafter.model.vocab} tokens of {drafter.model.name}",
                    "Published acceptance does not hold for a foreign vocabulary: state what you measured with --acceptance.",
                )
            result[drafter.name] = published(drafter, workload, temperature, context)
        else:
            curve = _stated(given, drafter.kind)
            chain = replace(drafter, tree=None)
            s = chain.survival(curve.extended(drafter.k_max), workload=workload, temperature=temperature)
            if note := curve.beyond(drafter.k_max):
                notes.append(f"{drafter.name}: {note}")
            at_once = replace(curve, s=s, tail=None)
            result[drafter.name] = as_copied(at_once) if drafter.lookup else at_once
    return result, notes


def _stated(given: Sequence[str | Survival], kind: str) -> Survival:
    """The curve of one drafter; several statements are lengths at different k, or they would contradict each other."""
    if len(given) == 1:
        return parse_acceptance(given[0], kind) if isinstance(given[0], str) else given[0]
    lengths: dict[int, float] = {}
    for text in given:
        found = re.fullmatch(r"\s*al:\s*([\d.]+)@(\d+)\s*", text, re.I | re.A) if isinstance(text, str) else None
        if found is None or int(found[2]) in lengths:
            raise InputError("acceptance", [str(g) for g in given], f"one statement for {kind}, or al:AL@k at different k")
        lengths[int(found[2])] = _number(found[1], str(text))
    return from_lengths(lengths, kind=kind)


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("acceptance", whole, FORMS, f"{text.strip()!r} is not a number.") from None
