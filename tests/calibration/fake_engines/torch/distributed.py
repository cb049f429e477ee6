"""Ranks as threads that meet at a barrier."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import numpy as np

from torch import Tensor, cuda

_mine = threading.local()
_board: dict[str, Any] = {}
LINK_BYTES_PER_S, FLOOR_S = 30e9, 8e-6
defects: set[str] = set()


def connect(rank: int, ranks: int, meeting: threading.Barrier) -> None:
    _mine.rank, _mine.ranks, _mine.meeting = rank, ranks, meeting


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
) -> None:
    if (rank, world_size) != (_mine.rank, _mine.ranks):
        raise ValueError("rank and world size do not match the process")
    barrier()


def barrier() -> None:
    _mine.meeting.wait(timeout=20)


def all_reduce(tensor: Tensor) -> None:
    size = tensor.values.size * 2
    if cuda.captured(FLOOR_S + 2 * (_mine.ranks - 1) / _mine.ranks * size / LINK_BYTES_PER_S):
        return
    _board[_mine.rank] = tensor.values.copy()
    barrier()
    everyone = range(_mine.ranks - ("a rank is left out" in defects))
    total = np.sum([_board[rank] for rank in everyone], axis=0)
    barrier()
    tensor.values[...] = total


def new_group(backend: str | None = None) -> str:
    return f"{backend} group"


def destroy_process_group() -> None: ...
