"""Small parts of a serving engine's description: a number with its origin, drafter support, laws of extra rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    ``rows_per_draft_token`` * k + ``extra_rows``: rows of a step's token budget that drafting takes beside the verified
    tokens; ``drafts_in_own_pass``: a block drafter's pass has to fit the budget by itself. ``until``: first version without it.
    ``versions_source``: where ``since`` and ``until`` come from; text that starts with "assumed" is a guess.
    """

    method: str
    since: str = ""
    until: str = ""
    versions_source: str = ""
    note: str = ""
    rows_per_draft_token: float = 0.0
    extra_rows: float = 0.0
    drafts_in_own_pass: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


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
