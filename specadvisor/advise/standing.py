"""Which drafter leads: what is at hand, how much evidence stands behind it, and its gain less its risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from specadvisor.acceptance.catalogue import targets_by_kind
from specadvisor.acceptance.priors import shipped_table
from specadvisor.advise.choose import PLATEAU, Choice
from specadvisor.advise.recommendation import NO_DRAFTER, Curve, Leader
from specadvisor.ranges import Z80

if TYPE_CHECKING:
    from specadvisor.drafters import Drafter

# Drafters are compared by the 25th percentile of their log gain: this many standard deviations below the expected one.
CAUTION = 0.6745
Availability = Literal[
    "in the checkpoint", "no training", "your file", "published for this model", "to be trained", "cannot run here"
]
TO_BE_TRAINED: Availability = "to be trained"
CANNOT_RUN: Availability = "cannot run here"


def origin(curve: Curve) -> Availability:
    """``availability`` of the curve's drafter, where the engine runs it at all."""
    return CANNOT_RUN if curve.missing else availability(curve.drafter)


def availability(drafter: Drafter) -> Availability:
    """Where the drafter comes from. Published: the acceptance catalogue has rows of this kind on this very target."""
    model = drafter.model
    if drafter.from_file:
        return "your file"
    if drafter.kind == "mtp" and model.mtp is not None:
        return "in the checkpoint"
    if drafter.facts.training_class == "none":
        return "no training"
    name = model.name.lower()
    targets = frozenset[str]().union(*(targets_by_kind().get(kind, frozenset()) for kind in drafter.weights_of))
    published = any(t == name or t.startswith((f"{name}-instruct", f"{name} ")) for t in targets)
    return "published for this model" if published else TO_BE_TRAINED


def evidence_rows(kind: str) -> int:
    """Published rows behind the catalogue values of ``kind``, whatever their workload: the interval of a value that was
    carried over from other workloads is wider already.
    """
    return sum(cell.rows for (drafter, _), cell in shipped_table().cells.items() if drafter == kind)


def gain_and_risk(curve: Curve) -> tuple[float, float]:
    """(mean log gain over the stated loads when each runs its own k, its standard deviation).

    Errors of one drafter are alike at every load, so their standard deviations are averaged, not their variances.
    """
    logs, sigmas = [], []
    for choice in curve.choices:
        logs.append(np.log(max(choice.gain.mid, 1e-9)))
        sigmas.append(np.log(choice.gain.high / choice.gain.low) / (2.0 * Z80) if choice.k and choice.gain.low > 0 else 0.0)
    return float(np.mean(logs)), float(np.mean(sigmas))


def score(curve: Curve) -> float:
    """25th percentile of the mean log gain."""
    gain, sigma = gain_and_risk(curve)
    return gain - CAUTION * sigma


def _field(curves: Mapping[str, Curve]) -> list[Curve]:
    """The drafters that may lead (see ``leader``)."""
    runs = [c for c in curves.values() if not c.missing] or list(curves.values())
    field = [c for c in runs if not c.drafter.lossy] or runs
    known = [c for c in field if c.acceptance_known]
    return known or [c for c in field if evidence_rows(c.drafter.acceptance_kind)] or field


def leader(curves: Mapping[str, Curve]) -> Curve | None:
    """The drafter to recommend; None without any.

    Lossy ones, and those that the engine cannot run, only where there is nothing else. Where the user measured the acceptance
    of some, those are at hand: a catalogue value does not displace them. A kind without a single published row does not lead
    (``passed_over``). Among the rest the best score leads, but one that has to be trained gives way to an available one from
    which its gain cannot be told (expected gains less than one standard deviation of their difference apart) and whose own
    score is a gain.
    """
    field = _field(curves)
    top = max(field, key=score, default=None)
    if top is None or top.acceptance_known or availability(top.drafter) != TO_BE_TRAINED:
        return top
    gain, sigma = gain_and_risk(top)
    near = []
    for curve in field:
        other, spread = gain_and_risk(curve)
        alike = gain - other < np.hypot(sigma, spread)
        if availability(curve.drafter) != TO_BE_TRAINED and alike and score(curve) > 0.0:
            near.append(curve)
    return max(near, key=score, default=top)


def passed_over(curves: Mapping[str, Curve], top: Curve) -> list[Curve]:
    """Drafters with a better score than ``top``'s that did not lead only because no published row stands behind them."""
    if top.acceptance_known:
        return []
    unseen = [
        c for c in curves.values()
        if not (c.acceptance_known or evidence_rows(c.drafter.acceptance_kind) or c.drafter.lossy or c.missing)
    ]  # fmt: skip
    return [c for c in unseen if c.name != top.name and score(c) > score(top)]


def gains(choice: Choice) -> bool:
    """Whether the k of ``choice`` is expected to gain more than the noise."""
    return bool(choice.k) and choice.gain.mid > 1.0 + PLATEAU


def available(curves: Mapping[str, Curve], top: Curve) -> Curve | None:
    """Where ``top`` has to be trained: of the others that need not be and gain somewhere, the one that gains most at any load.

    None without any.
    """
    if top.acceptance_known or availability(top.drafter) != TO_BE_TRAINED:
        return None
    others = [c for c in curves.values() if origin(c) not in (TO_BE_TRAINED, CANNOT_RUN) and not c.drafter.lossy]
    running = [c for c in others if any(gains(choice) for choice in c.choices)]
    return max(running, key=lambda c: max(choice.gain.mid for choice in c.choices if choice.k), default=None)


def leaders(curves: Mapping[str, Curve], loads: Sequence[int]) -> tuple[Leader, ...]:
    """The best expected gain at each load among the drafters that may lead."""
    field = _field(curves)
    found = []
    for column, users in enumerate(loads):
        curve = max(field, key=lambda c: c.choices[column].gain.mid, default=None)
        if curve is not None:
            choice = curve.choices[column]
            name, where = (curve.name, origin(curve)) if choice.k else (NO_DRAFTER, "no training")
            found.append(Leader(users, name, choice.k, choice.gain, where))
    return tuple(found)
