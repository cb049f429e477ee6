"""Fitted kernel parameters with their provenance: the one schema for shipped profiles and the user's own calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STATES = ("measured", "sibling", "extrapolated")


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """Parameters of one (operator, format, engine) on one GPU.

    ``operator``: gemm, attention, mla, sparse_attention, moe, recurrent, all_reduce. ``state``: ``measured`` on this
    GPU, taken from a ``sibling`` of its family, or ``extrapolated``. Errors are absolute relative errors on unseen shapes.
    """

    operator: str
    format: str
    engine: str
    parameters: Mapping[str, float]
    state: str
    median_error: float
    p90_error: float
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """All entries of one GPU."""

    gpu: str
    entries: tuple[KernelEntry, ...]
    source: str = "shipped"

    def find(self, operator: str, format: str, engine: str) -> KernelEntry:
        """The entry for exactly this, else the same format on another engine, else the family default (in that order)."""
        raise NotImplementedError
