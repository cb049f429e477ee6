"""Measured points of the user's own deployment correct the predictions at its other loads and draft lengths.

One measured speed-up m at a point where p was predicted gives the log correction d = ln(m / p). Errors of one deployment
are alike, not equal: elsewhere the predicted speed-up is multiplied by exp(r d) with r = 0.8 at the anchor's own load
(published sweeps: the correction to the power 0.8), 0.9 times less for each doubling of the load away from it, because
other costs rule there. Read as a correlation r between errors of one deployment, the remaining log variance is
(1 - r^2) of what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.errors import InputError, nearest
from specadvisor.ids import resolve
from specadvisor.ranges import Z80, FloatArray, Range

CORRELATION = 0.8
FADE_PER_OCTAVE = 0.9
# Log standard deviation of a ratio of two benchmark runs: repeats of one arm differ by 3-5%.
MEASUREMENT_SIGMA = 0.05
_KEYS = ("concurrency", "k", "speedup", "tpot_speedup", "base_tpot_ms", "tpot_ms", "drafter")
_FORMAT = "concurrency=1,k=3,speedup=1.9 or concurrency=1,k=3,base_tpot_ms=34,tpot_ms=18, optionally drafter=eagle3"


@dataclass(frozen=True, slots=True)
class Anchor:
    """One measured speed-up over plain decoding; ``quantity`` says of what."""

    concurrency: float
    k: int
    speedup: float
    quantity: Literal["throughput", "tpot"] = "throughput"
    drafter: str = ""
    base_tpot_s: float | None = None

    def __post_init__(self) -> None:
        if not self.concurrency >= 1:
            raise InputError("anchor concurrency", self.concurrency, "1 or more")
        if self.k < 1:
            raise InputError("anchor k", self.k, "1 or more draft tokens (k = 0 has speed-up 1 by definition)")
        if not 0.02 <= self.speedup <= 1.2 * (self.k + 1):
            limit = f"0.02 to about k + 1 = {self.k + 1}"
            raise InputError("anchor speedup", self.speedup, limit, "A round gives at most k + 1 tokens.")

    @property
    def label(self) -> str:
        return f"concurrency {self.concurrency:g}, k {self.k}: measured {self.speedup:.2f}x {self.quantity}"


def parse_anchor(text: str) -> Anchor:
    """Read ``concurrency=1,k=3,speedup=1.9`` (throughput), ``tpot_speedup=1.9`` or a TPOT pair; raises ``InputError``."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in _KEYS or key in fields:
            raise InputError("anchor", text, _FORMAT, nearest(key, _KEYS))
        fields[key] = value
    drafter = resolve("drafter", fields.pop("drafter")) if "drafter" in fields else ""
    try:
        numbers = {key: float(value) for key, value in fields.items()}
    except ValueError:
        raise InputError("anchor", text, _FORMAT, "Every value but the drafter is a number.") from None
    pair = {"base_tpot_ms", "tpot_ms"} <= numbers.keys()
    given = [name for name in ("speedup", "tpot_speedup") if name in numbers]
    if not {"concurrency", "k"} <= numbers.keys() or len(given) + pair != 1 or numbers["k"] % 1:
        raise InputError("anchor", text, _FORMAT)
    if pair and min(numbers["base_tpot_ms"], numbers["tpot_ms"]) <= 0:
        raise InputError("anchor", text, "positive times")
    speedup = numbers["base_tpot_ms"] / numbers["tpot_ms"] if pair else numbers[given[0]]
    return Anchor(
        concurrency=numbers["concurrency"],
        k=int(numbers["k"]),
        speedup=speedup,
        quantity="throughput" if given == ["speedup"] else "tpot",
        drafter=drafter,
        base_tpot_s=numbers["base_tpot_ms"] / 1e3 if pair else None,
    )


def read_anchors(anchors: Sequence[str | Anchor], kinds: Sequence[str]) -> list[Anchor]:
    """Anchors as typed or made; ``kinds``: the drafters compared, which an anchor may name.

    Raises ``InputError`` for anything else, and for an anchor of a drafter that is not compared.
    """
    if isinstance(anchors, str | Anchor) or not isinstance(anchors, Iterable):
        anchors = [anchors]
    found: list[Anchor] = []
    compared = ", ".join(sorted(set(kinds)))
    for anchor in anchors:
        if not isinstance(anchor, str | Anchor):
            raise InputError("anchor", anchor, _FORMAT, "As text, or as specadvisor.Anchor(concurrency, k, speedup).")
        read = anchor if isinstance(anchor, Anchor) else parse_anchor(anchor)
        if not read.drafter and len(set(kinds)) > 1:
            raise InputError("anchor", read.label, f"a drafter beside it, one of {compared}", "Or name one --drafter.")
        if read.drafter and read.drafter not in kinds:
            raise InputError("anchor", read.drafter, f"one of the drafters compared: {compared}")
        found.append(read)
    return found


@dataclass(frozen=True, slots=True)
class Correction:
    """Log corrections of several anchors of one drafter; ``predicted_sigma`` is the log spread before any anchor."""

    anchors: tuple[Anchor, ...]
    logs: tuple[float, ...]

    def log_factor(self, concurrency: ArrayLike) -> FloatArray:
        """ln of the factor on a predicted speed-up at ``concurrency``: anchors nearer in load (in octaves) weigh more."""
        octaves = self._octaves(concurrency)
        weights = 1.0 / (1.0 + octaves)
        part = weights * CORRELATION * FADE_PER_OCTAVE**octaves * np.asarray(self.logs)
        return np.asarray(part.sum(axis=-1) / weights.sum(axis=-1))

    def apply(self, speedup: Range, concurrency: ArrayLike) -> Range:
        """The corrected speed-up with what is left of its uncertainty; ``concurrency`` broadcasts against it."""
        sigma = np.log(np.asarray(speedup.high) / np.asarray(speedup.mid)) / Z80
        near = CORRELATION * FADE_PER_OCTAVE ** self._octaves(concurrency).min(axis=-1)
        left = np.sqrt((1.0 - near**2) * sigma**2 + (near * MEASUREMENT_SIGMA) ** 2 / len(self.logs))
        return Range.log_normal(np.asarray(speedup.mid) * np.exp(self.log_factor(concurrency)), np.minimum(left, sigma))

    def _octaves(self, concurrency: ArrayLike) -> FloatArray:
        """Doublings of load between ``concurrency`` and each anchor (last axis)."""
        load = np.log2(np.asarray(concurrency, dtype=float))[..., None]
        return np.asarray(np.abs(load - np.log2([a.concurrency for a in self.anchors])))

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Pairs of anchors whose corrections differ by more than twice the measurement noise of a difference."""
        limit = 2.0 * np.sqrt(2.0) * MEASUREMENT_SIGMA
        return tuple(
            f"anchors disagree: {a.label} asks for x{np.exp(x):.2f}, {b.label} for x{np.exp(y):.2f}; check that both are the "
            "same build, prompts and acceptance"
            for i, (a, x) in enumerate(zip(self.anchors, self.logs, strict=True))
            for b, y in list(zip(self.anchors, self.logs, strict=True))[i + 1 :]
            if abs(x - y) > limit
        )


def correction(anchors: Sequence[Anchor], predicted: Sequence[float]) -> Correction:
    """The correction that ``anchors`` imply, given the speed-up predicted for each of them (same order and quantity)."""
    if not anchors:
        raise InputError("anchors", "none", "one or more measured points")
    logs = tuple(float(np.log(a.speedup / p)) for a, p in zip(anchors, predicted, strict=True))
    return Correction(tuple(anchors), logs)
