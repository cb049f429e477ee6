"""Puts the fakes where Python finds them, and takes them away again."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = {path.stem for path in FOLDER.iterdir() if path.suffix in ("", ".py") and path.stem != "__pycache__"}


@contextlib.contextmanager
def loaded() -> Iterator[Any]:
    """Inside, the fakes are importable; gives ``fake_kernels``."""
    before = _take_modules()
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("fake_kernels")
    finally:
        sys.path.remove(str(FOLDER))
        _take_modules()
        sys.modules.update(before)


def _take_modules() -> dict[str, Any]:
    ours = {name for name in sys.modules if name.partition(".")[0] in NAMES}
    return {name: sys.modules.pop(name) for name in ours}
