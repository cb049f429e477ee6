"""The acceptance of a drafter as the catalogue has it, carried over to the load; how far a measured one carries."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specadvisor.acceptance import Survival, prior, with_gain
from specadvisor.acceptance.context import UNTOLD, context_factor, context_law, context_sigma
from specadvisor.acceptance.survival import REFERENCE_K
from specadvisor.ranges import FloatArray, Range

if TYPE_CHECKING:
    from specadvisor.drafters import Drafter

# Log standard deviation of AL - 1 of a copied text per unit of log((k + 1) / (k_measured + 1)): beyond the measured k the
# conditional acceptance may fall to .4 (chat) or stay at .97 (edited code), which puts AL(16) - 1 at 1.1 to 5 times AL(3) - 1.
COPIED_SIGMA_PER_LOG_K = 0.4
# Most published rows of look-up drafters are at three to five draft tokens.
COPIED_REACH = 5


@dataclass(frozen=True)
class ByContext:
    """Curves of one drafter at several contexts, in the place of one ``Survival`` over a grid with that context axis.

    ``keys`` is the axis, ``which`` the curve of each of its entries. Modifiers that choose what to verify see the curve of the
    longest context.
    """

    keys: FloatArray
    which: NDArray[np.intp]
    curves: tuple[Survival, ...]
    source: str
    notes: tuple[str, ...]
    known: bool = False

    @property
    def s(self) -> FloatArray:
        """The curve at the longest context."""
        return self.curves[-1].s

    def range(self, k: ArrayLike) -> Range:
        """AL(k) over k and the context axis broadcast together."""
        ranges = [curve.range(k) for curve in self.curves]

        def at(part: str) -> FloatArray:
            shape = np.broadcast_shapes(np.shape(getattr(ranges[0], part)), self.which.shape)
            values = np.stack([np.broadcast_to(getattr(one, part), shape) for one in ranges])
            return np.take_along_axis(values, np.broadcast_to(self.which, shape)[None], axis=0)[0]

        return Range(at("low"), at("mid"), at("high"))

    def extended(self, k_max: int) -> FloatArray:
        """The curve at the longest context."""
        return self.curves[-1].extended(k_max)


def published(drafter: Drafter, workload: str, temperature: float, context: ArrayLike | None) -> Survival:
    """The catalogue's curve of ``drafter`` with its tree and modifiers, at ``context`` keys (any shape; None: as published).

    Beyond the context that the drafter was trained on the acceptance falls as ``carried_over`` says.
    """
    if context is None:
        return _at(drafter, workload, temperature, None)
    keys = np.asarray(context, dtype=float)
    if not keys.ndim:
        return _at(drafter, workload, temperature, float(keys))
    factors = carried_over(drafter, keys)
    distinct, which = np.unique(-factors, return_inverse=True)
    ends = [float(keys[factors == -value].max()) for value in distinct]
    if len(ends) == 1:
        return _at(drafter, workload, temperature, ends[0])
    parts = tuple(_at(drafter, workload, temperature, end) for end in ends)
    index = np.asarray(which, dtype=np.intp).reshape(keys.shape)
    found = ByContext(keys, index, parts, parts[-1].source, parts[-1].notes)
    return cast(Survival, found)


def at_context(curve: Survival, context: float) -> Survival:
    """The one curve of ``curve`` that belongs to ``context`` keys, or to the nearest entry of its axis."""
    several: object = curve
    if not isinstance(several, ByContext):
        return curve
    return several.curves[int(several.which.ravel()[np.argmin(np.abs(several.keys.ravel() - context))])]


def carried_over(drafter: Drafter, context: ArrayLike) -> FloatArray:
    """Factor on AL - 1 at ``context`` keys (any shape): its kind's law beyond the context that the drafter was trained on.

    A window that it was trained with counts as a context of that length; of what one put on afterwards could win back it
    recovers a part (``draft-window`` in ``profiles/drafters/modifiers.toml``).
    """
    kind, trained = drafter.acceptance_kind, drafter.trained_context
    windowed = context_factor(kind, drafter.keys_seen(context), trained)
    late = next((one for one in drafter.modifiers if one.id == "draft-window"), None)
    if late is None:
        return windowed
    without = context_factor(kind, context, trained)
    return without + float(late.facts.shape["recovers"]) * (windowed - without)


def _at(drafter: Drafter, workload: str, temperature: float, keys: float | None) -> Survival:
    curve = prior(drafter.acceptance_kind, workload, temperature, k_max=max(drafter.k_max, REFERENCE_K))
    factor = 1.0 if keys is None else float(carried_over(drafter, keys))
    if keys is not None and factor < 1.0:
        law = context_law(drafter.acceptance_kind)
        reason = f"{law.state}: {law.source}" if drafter.trained_context else UNTOLD
        note = f"{drafter.name} at a context of {keys:g}: AL - 1 times {factor:.2f} ({reason})"
        unsure = float(context_sigma(drafter.acceptance_kind, drafter.keys_seen(keys), drafter.trained_context))
        curve = with_gain(curve, factor, REFERENCE_K).with_notes(note)
        curve = replace(curve, sigma=float(np.hypot(curve.sigma, unsure)))
    s = drafter.survival(curve.extended(drafter.k_max), workload=workload, temperature=temperature)
    found = replace(curve, s=s, tail=None)
    return as_copied(found) if drafter.lookup else found


class Copied(Survival):
    """A curve of copied text: how long a match goes on beyond the measured k is a guess, so the range widens fast."""

    __slots__ = ()

    @property
    def reach(self) -> int:
        """The last k that was measured; of published rows the usual one."""
        return self.measured[1] if self.measured else COPIED_REACH

    def sigma_at(self, k: ArrayLike) -> Any:
        """As of any curve, and more beyond ``reach``."""
        beyond = np.log(np.maximum(1.0, (np.asarray(k, dtype=float) + 1.0) / (self.reach + 1.0)))
        return np.hypot(Survival.sigma_at(self, k), COPIED_SIGMA_PER_LOG_K * beyond)


def as_copied(curve: Survival) -> Survival:
    """``curve`` with the wide range of a copied text beyond the k that it was measured at."""
    return Copied(**{field.name: getattr(curve, field.name) for field in fields(curve)})
