"""Writing files that belong together: all of them or none, also on a full disk and under Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


def write_together(texts: Mapping[Path, str], done: Callable[[], None] = lambda: None) -> None:
    """Write every file whole or leave all as they were; ``done`` is called once they are in place.

    First all the partial files, then the renames in order. A rename that fails undoes those before it; a signal waits until
    the last one and ``done``. Raises ``OSError``.
    """
    partial = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in texts}
    old = {path: path.with_name(f".{path.name}.{os.getpid()}.old") for path in texts}
    made = [folder for path in texts for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial[path].write_text(text, encoding="utf-8")
        with _signals_wait():
            _rename_all(partial, old)
            done()
    except BaseException:
        _remove(*partial.values())
        for folder in dict.fromkeys(made):
            with contextlib.suppress(OSError):  # somebody else's files are in it
                folder.rmdir()
        raise
    finally:
        _remove(*partial.values(), *old.values())


def _remove(*files: Path) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()


def _rename_all(partial: Mapping[Path, Path], old: Mapping[Path, Path]) -> None:
    renamed: list[Path] = []
    try:
        for path in partial:
            if path.exists():
                _second_name(path, old[path])
        for path, temporary in partial.items():
            temporary.replace(path)
            renamed.append(path)
    except BaseException:
        for path in renamed:
            if old[path].exists():
                old[path].replace(path)
            else:
                path.unlink(missing_ok=True)
        raise


def _second_name(path: Path, name: Path) -> None:
    """The file under another name too, to come back from: a link costs nothing on a full disk, but not every disk has them."""
    name.unlink(missing_ok=True)
    try:
        os.link(path, name)
    except OSError:
        shutil.copy2(path, name)


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Ctrl-C and termination take effect at the end of the block. Only a main thread has handlers to hold back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def remember(number: int, frame: Any) -> None:
        seen.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, remember) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    for caught in seen:
        signal.raise_signal(caught)
