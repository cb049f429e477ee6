"""Errors a user can act on.

SpecadvisorError
├── InputError          a value that cannot be used (command line: exit code 2)
│   └── MissingDependency   an optional package, library or device is not there
└── DoesNotFit          the honest answer is "does not fit" (command line: exit code 1)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SpecadvisorError(Exception):
    """Base of every error that specadvisor raises on purpose."""


class InputError(SpecadvisorError, ValueError):
    """A value that cannot be used: names the field, the value, what is accepted and what to do next."""

    def __init__(self, field: str, value: object, accepted: str, hint: str = "") -> None:
        self.field, self.value, self.accepted, self.hint = field, value, accepted, hint
        super().__init__(f"{field}: {value!r} cannot be used; accepted: {accepted}." + (f" {hint}" if hint else ""))


class MissingDependency(InputError):
    """Something that has to be installed or present first; ``hint`` is the exact command or step."""

    def __init__(self, what: str, needed_for: str, hint: str) -> None:
        super().__init__(what, "not found", f"needed for {needed_for}", hint)
        self.args = (f"{what} was not found; it is needed for {needed_for}. {hint}",)


class DoesNotFit(SpecadvisorError):
    """The deployment cannot hold what was asked for."""


def nearest(value: str, known: Iterable[str], n: int = 3) -> str:
    """``"Did you mean a, b?"`` for a misspelt ``value``, or an empty string."""
    close = difflib.get_close_matches(value.lower(), [k.lower() for k in known], n=n, cutoff=0.5)
    return f"Did you mean {', '.join(close)}?" if close else ""
