"""Correctness against float64, before anything is timed. A failed check stops the calibration; nothing is written."""

from __future__ import annotations

from specadvisor.errors import SpecadvisorError

# bf16 rounds to 2^-9 of a value; a norm over many of them with fp32 accumulation lands near 2e-3.
BF16_TOLERANCE = 6e-3


class CheckFailed(SpecadvisorError):
    """A kernel computed something else than its float64 reference."""


class Unreliable(SpecadvisorError):
    """The machine did not hold still: throttled clocks, drift, impossible speeds."""


def require(what: str, error: float, tolerance: float = BF16_TOLERANCE) -> None:
    """Raise ``CheckFailed`` unless ``error`` (relative, against float64) is within ``tolerance``; NaN fails too."""
    if not error <= tolerance:
        raise CheckFailed(
            f"{what} does not match its float64 reference (relative error {error:.3g}, allowed {tolerance:g}): "
            "its times would be worthless, so the calibration stops and writes nothing."
        )
