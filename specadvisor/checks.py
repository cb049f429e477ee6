"""Checks of single numbers that a user states: one clear error for each that cannot be meant."""

from __future__ import annotations

from typing import Any

from specadvisor.errors import InputError


def whole(field: str, value: Any, low: int, high: int) -> int:
    """``value`` as an int in [low, high]; raises ``InputError`` for text, fractions, nan and anything outside."""
    try:
        number = int(value)
        exact = not isinstance(value, bool) and float(value) == number
    except (TypeError, ValueError, OverflowError):
        exact, number = False, 0
    if not exact or not low <= number <= high:
        raise InputError(field, value, f"a whole number from {low} to {high}")
    return number


def positive(field: str, value: Any) -> float:
    """``value`` as a finite float above 0; raises ``InputError``."""
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 < number < float("inf"):
        raise InputError(field, value, "a number above 0")
    return number


def fraction(field: str, value: Any) -> float:
    """``value`` as a float in (0, 1]; raises ``InputError``."""
    number = positive(field, value)
    if number > 1:
        raise InputError(field, value, "a fraction above 0, at most 1")
    return number
