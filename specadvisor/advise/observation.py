"""What a round showed of acceptance: sums, or counts by position where the engine or a single request tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """``requests``: rounds of single requests behind the sums. ``reached[j]`` of them had the first j drafts accepted and
    ``passed[j]`` also the next; None where only the sum ``accepted`` is known.
    """

    requests: float
    accepted: float
    reached: FloatArray | None = None
    passed: FloatArray | None = None

    @classmethod
    def read(
        cls,
        k: int,
        drafted: float,
        accepted: float,
        per_position: Sequence[float] | None = None,
        per_request: Sequence[int] | None = None,
        requests: float | None = None,
        at_least: float = 0.0,
    ) -> Observation:
        """Checked counters of a round at ``k``; raises ``InputError`` where they cannot be true together.

        ``requests`` None: ``drafted`` / k, every request drafted k tokens, and ``at_least`` so many of them.
        """
        drafted, accepted = number("drafted", drafted, 0.0), number("accepted", accepted, 0.0)
        given = {"k": k, "drafted": drafted, "accepted": accepted}
        if requests is None:
            if (k == 0) != (drafted == 0) and not (k and at_least):
                raise InputError("observation", given, "0 drafted at k = 0 only; else state requests=")
            requests = max(drafted / k, at_least) if k else 0.0
        requests = number("requests", requests, 0.0)
        if accepted > drafted or drafted > k * requests * (1.0 + 1e-9):
            raise InputError("observation", given | {"requests": requests}, "0 <= accepted <= drafted <= k * requests")
        if per_position is not None and per_request is not None:
            raise InputError("observation", list(per_request), "counts per position or per request, not both")
        if per_request is not None:
            lengths = _counts("per_request", per_request, 0.0, float(k))
            if lengths.size != requests or np.any(lengths != np.floor(lengths)):
                raise InputError("per_request", list(per_request), f"whole accepted drafts of {requests:g} requests")
            passed = np.count_nonzero(lengths[:, None] > np.arange(k), axis=0).astype(float)
        elif per_position is not None:
            passed = _counts("per_position", per_position, 0.0, requests, "Fewer drafts than k each: state requests=.")
            if passed.size != k or np.any(np.diff(passed) > 0):
                raise InputError("per_position", list(per_position), f"{k} counts that never increase")
        elif requests == 1 and accepted == int(accepted):
            passed = (np.arange(k) < accepted).astype(float)
        else:
            return cls(requests, accepted)
        if abs(float(passed.sum()) - accepted) > 1e-6 * max(accepted, 1.0):
            raise InputError("accepted", accepted, f"the sum of the counts beside it, {float(passed.sum()):g}")
        reached = np.concatenate(([requests], passed[:-1])) if k else None
        return cls(requests, accepted, reached, passed if k else None)


def number(field: str, value: Any, lowest: float = 1e-9) -> float:
    """``value`` as a finite float of ``lowest`` or more; raises ``InputError``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(field, value, "a number")
    if not lowest <= value < float("inf"):
        raise InputError(field, value, "a number of 0 or more" if lowest == 0 else "a number above 0")
    try:
        return float(value)
    except OverflowError:
        raise InputError(field, "an integer beyond any float", "a number") from None


def _counts(field: str, values: Any, low: float, high: float, hint: str = "") -> FloatArray:
    try:
        counts = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        counts = np.full(1, np.nan)
    if counts.ndim != 1 or not np.all((counts >= low) & (counts <= high)):
        raise InputError(field, values, f"a list of counts from {low:g} to {high:g}", hint)
    return counts
