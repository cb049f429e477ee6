"""A modifier changes the cost or the acceptance of a drafter that it is legal with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from specadvisor.drafters.facts import Facts, modifier_facts
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter, Load, Round
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
        where = f"only in {', '.join(engines)}" if engines else "in no serving engine yet"
        return f"{self.id} is {where}; priced as published"

    def drafter(self, drafter: Drafter) -> Drafter:
        """The reshaped drafter."""
        return drafter

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        """The repriced round."""
        return current

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        """s_1..s_kmax (last axis) after the effect on acceptance."""
        return survival


def acceptance_length(survival: FloatArray) -> FloatArray:
    """AL at the full depth of the list."""
    return 1.0 + np.sum(survival, axis=-1)


def with_length_factor(survival: FloatArray, factor: float) -> FloatArray:
    """The curve whose AL at full depth is ``factor`` times as long: s_j -> s_j ** e, which keeps 0..1 and the order.

    Published effects are ratios of acceptance lengths at one depth; e is found by bisection. A factor that would need
    more than every draft accepted saturates there.
    """
    s = np.clip(np.asarray(survival, dtype=float), 0.0, 1.0)
    if factor == 1.0 or not np.any(s > 0):
        return s
    wanted = factor * acceptance_length(s)
    low, high = np.zeros_like(wanted), np.full_like(wanted, 1.0e6)
    for _ in range(80):
        middle = 0.5 * (low + high)
        too_long = acceptance_length(_power(s, middle)) > wanted
        low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
    return _power(s, 0.5 * (low + high))


def with_accepted_factor(survival: FloatArray, factor: float) -> FloatArray:
    """The curve with ``factor`` times as many accepted drafts, AL - 1, at full depth."""
    s = np.asarray(survival, dtype=float)
    length = float(np.mean(acceptance_length(s)))
    return with_length_factor(s, (1.0 + factor * (length - 1.0)) / length)


def _power(s: FloatArray, exponent: FloatArray) -> FloatArray:
    positive = np.where(s > 0, s, 1.0)
    return np.where(s > 0, positive ** exponent[..., None], 0.0)
