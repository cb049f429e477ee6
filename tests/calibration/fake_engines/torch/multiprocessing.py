"""``spawn`` as threads; the first error of any rank is raised, as torch does."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def get_context(method: str) -> Any:
    return SimpleNamespace(SimpleQueue=queue.Queue)


def spawn(fn: Callable[..., None], args: tuple[Any, ...] = (), nprocs: int = 1) -> None:
    from torch import distributed

    meeting = threading.Barrier(nprocs)
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        distributed.connect(rank, nprocs, meeting)
        try:
            fn(rank, *args)
        except threading.BrokenBarrierError:
            pass  # another rank failed
        except BaseException as error:
            errors.append(error)
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(nprocs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(f"Process terminated with the following error: {errors[0]}")
