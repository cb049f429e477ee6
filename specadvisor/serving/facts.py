"""Small parts of a serving engine's description: a number with its origin, drafter support, laws of extra rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specadvisor.formats import weight_format
from specadvisor.hardware.gpu import Gpu
from specadvisor.ranges import FloatArray

STATES = ("documented", "fitted", "assumed")


@dataclass(frozen=True, slots=True)
class Fact:
    """A value and where it comes from: ``documented`` (source or documentation of the engine), ``fitted`` (on what), or

    ``assumed`` (a first value that nothing published settles).
    """

    value: Any
    state: str
    source: str


@dataclass(frozen=True, slots=True)
class Support:
    """Whether an engine runs a kind of drafter. ``method``: its name there; ``since``: first version; ``note``: caveats."""

    supported: bool
    method: str = ""
    since: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class DrafterFacts:
    """How an engine runs one kind of drafter.

    KV slots a sequence reserves for k draft tokens: ``slots_per_draft_token`` * k + ``extra_slots``.
    ``divides_token_budget``: active sequences are capped at token budget // slots. ``until``: first version without it.
    """

    method: str
    since: str = ""
    until: str = ""
    note: str = ""
    slots_per_draft_token: float = 1.0
    extra_slots: float = 0.0
    divides_token_budget: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExtraRowLaw:
    """Cost of more than one row in a GEMM whose kernel is not the roofline's, in units of its one-row time.

    ``share`` per extra row up to ``rows`` rows, measured at ``bits`` per weight on a GPU of ``bytes_per_s`` and
    ``clock_sms`` (SMs * Hz); beyond, ``level`` (the other kernel takes over; 0: what ``rows`` rows cost).
    """

    kernel: str
    share: float
    rows: int
    level: float = 0.0
    bits: float = 0.0
    bytes_per_s: float = 0.0
    clock_sms: float = 0.0

    def cost(self, weight: str, rows: Any, gpu: Gpu) -> FloatArray:
        """Extra time over the roofline of ``rows`` rows (array), in one-row times.

        The work per extra row is arithmetic (constant in wall time: about 2.3-3.4 ms a token from 4 to 16 bits on one 9B
        model), the one-row time is memory: the share grows with bandwidth per clock and falls with the bits per weight.
        """
        scale = 1.0
        if self.bits:
            scale *= self.bits / (8.0 * weight_format(weight).bytes_per_weight)
            scale *= (
                gpu.memory_bytes_per_s / self.bytes_per_s * self.clock_sms / (gpu.sm_count * gpu.boost_hz * gpu.clock_scale)
            )
        m = np.maximum(np.asarray(rows, dtype=float), 1.0)
        slope = self.share * scale * (np.minimum(m, self.rows) - 1.0)
        return np.where(m > self.rows, self.level - 1.0, slope) if self.level else slope


def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a release, for comparing: ``v0.33.0`` -> (0, 33, 0), ``b11223`` -> (11223,), ``1.4.0rc4`` -> (1, 4, 0).

    Empty where the text names no release: a branch, a commit, ``0.1.dev13107`` (a nightly whose number says nothing).
    """
    text = version.strip().lower()
    if build := re.match(r"b(\d+)\b", text):
        return (int(build[1]),)
    release = re.match(r"v?(\d+(?:\.\d+)+)", text)
    if release is None or text.startswith("0.1.dev"):
        return ()
    return tuple(int(number) for number in release[1].split("."))
