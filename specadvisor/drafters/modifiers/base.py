"""A modifier changes the cost or the acceptance of a drafter that it is legal with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from specadvisor.drafters.base import NO_ENGINE
from specadvisor.drafters.facts import Facts, modifier_facts
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.drafters.round import Load, Round
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True)
class Modifier:
    """Base: every hook defaults to "no effect". ``lossy``: the output distribution changes. ``takes``: what a value means,

    empty = none, with examples as one types them; ``optional``: it may be left out. ``excludes``: of one such group a drafter
    takes one modifier.
    """

    id: ClassVar[str]
    lossy: ClassVar[bool] = False
    takes: ClassVar[str] = ""
    optional: ClassVar[bool] = False
    excludes: ClassVar[str] = ""

    value: str = ""

    def __str__(self) -> str:
        return f"{self.id}={self.value}" if self.value else self.id

    @property
    def facts(self) -> Facts:
        return modifier_facts()[self.id]

    def check(self, drafter: Drafter) -> None:
        """Raise ``InputError`` for a value that does not go with ``drafter``."""

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """None where it can be combined with ``drafter``, else the reason."""
        return None

    def note(self, serving: ServingEngine) -> str | None:
        """None where the engine ships it, else one sentence: such a modifier is priced, but cannot be switched on there."""
        engines = tuple(str(e) for e in self.facts.shape.get("engines", ()))
        if "any" in engines or serving.id in engines:
            return None
        return f"{self.id} is only in {', '.join(engines)}; priced as published" if engines else f"{self.id} is {NO_ENGINE}"

    def changes_output(self, temperature: float) -> bool:
        """Whether the output is distributed otherwise than the target's at this sampling temperature."""
        return self.lossy

    def drafter(self, drafter: Drafter) -> Drafter:
        """The reshaped drafter."""
        return drafter

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        """The repriced round."""
        return current

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        """s_1..s_kmax (last axis) after the effect on acceptance."""
        return survival


def whole_number(text: str) -> int | None:
    """The number that ``text`` writes in the digits 0 to 9; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() else None


def acceptance_length(survival: FloatArray) -> FloatArray:
    """AL at the full depth of the list."""
    return 1.0 + np.sum(survival, axis=-1)


def with_length_factor(survival: FloatArray, factor: float, at: int = 0, kept: int = 0) -> FloatArray:
    """The curve whose AL at ``at`` drafts (0: its full depth) is ``factor`` times as long.

    Published effects are ratios of acceptance lengths at one depth, so the factor holds there: beyond the ``kept`` first
    positions every conditional acceptance is raised to one power, which keeps 0..1 and the order, and makes the effect
    smaller at fewer drafts and larger at more. A list shorter than ``at`` goes on with its last conditional acceptance. A
    factor that would need more than every draft accepted saturates there.
    """
    s = np.clip(np.asarray(survival, dtype=float), 0.0, 1.0)
    depth = at or s.shape[-1]
    if factor == 1.0 or depth <= kept or not np.any(s > 0):
        return s
    listed = _to_depth(s, depth)
    wanted = factor * acceptance_length(listed)
    low, high = np.zeros_like(wanted), np.full_like(wanted, 1.0e6)
    for _ in range(80):
        middle = 0.5 * (low + high)
        too_long = acceptance_length(_power(listed, middle, kept)) > wanted
        low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
    return _power(s, 0.5 * (low + high), kept)


def with_accepted_factor(survival: FloatArray, factor: float, at: int = 0) -> FloatArray:
    """The curve with ``factor`` times as many accepted drafts, AL - 1, at ``at`` drafts (0: full depth)."""
    s = np.asarray(survival, dtype=float)
    length = float(np.mean(acceptance_length(_to_depth(s, at or s.shape[-1]))))
    return with_length_factor(s, (1.0 + factor * (length - 1.0)) / length, at)


def conditionals(survival: FloatArray) -> FloatArray:
    """a_j = s_j / s_(j-1) along the last axis, 0 where nothing survives."""
    s = np.asarray(survival, dtype=float)
    before = np.concatenate((np.ones_like(s[..., :1]), s[..., :-1]), axis=-1)
    return np.divide(s, before, out=np.zeros_like(s), where=before > 0)


def _to_depth(s: FloatArray, depth: int) -> FloatArray:
    """The first ``depth`` entries; beyond the list its last conditional acceptance goes on."""
    more = depth - s.shape[-1]
    if more <= 0:
        return s[..., :depth]
    tail = conditionals(s)[..., -1:] ** np.arange(1, more + 1)
    return np.concatenate((s, s[..., -1:] * tail), axis=-1)


def _power(s: FloatArray, exponent: FloatArray, kept: int) -> FloatArray:
    first = s[..., kept - 1 : kept] if kept else np.ones_like(s[..., :1])
    ratio = np.divide(s, first, out=np.zeros_like(s), where=first > 0)
    raised = first * np.where(ratio > 0, np.where(ratio > 0, ratio, 1.0) ** exponent[..., None], 0.0)
    return np.where(np.arange(s.shape[-1]) < kept, s, raised)
