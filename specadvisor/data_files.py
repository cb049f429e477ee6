"""Where the shipped data lives: ``profiles/`` of the wheel or of the checkout."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def profiles_dir() -> Path:
    """The folder with the shipped profiles: inside the package when installed, beside it in a checkout."""
    inside = PACKAGE / "profiles"
    return inside if inside.is_dir() else PACKAGE.parent / "profiles"


def user_dir() -> Path:
    """The user's own profiles: ``$SPECADVISOR_HOME``, else ``$XDG_DATA_HOME/specadvisor`` or its default."""
    if home := os.environ.get("SPECADVISOR_HOME"):
        return Path(home)
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "specadvisor"


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that a reader sees the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
