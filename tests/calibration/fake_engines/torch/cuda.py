"""Streams, graphs and events on an invented clock; each thread is a process of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

_state = threading.local()
FREE_BYTES = 100 << 30


def captured(seconds: float) -> bool:
    """Whether a graph is being captured, which then takes so much longer."""
    open_graph = getattr(_state, "graph", None)
    if open_graph is None:
        _state.now = getattr(_state, "now", 0.0) + seconds
        return False
    open_graph.seconds += seconds
    return True


class CUDAGraph:
    def __init__(self) -> None:
        self.seconds = 0.0

    def replay(self) -> None:
        _state.now = getattr(_state, "now", 0.0) + self.seconds


@contextlib.contextmanager
def graph(
    cuda_graph: CUDAGraph,
    pool: Any = None,
    stream: Any = None,
    capture_error_mode: str = "global",
    enable_annotations: bool = False,
    check_input_liveness: bool = False,
) -> Iterator[None]:
    _state.graph = cuda_graph
    try:
        yield
    finally:
        _state.graph = None


class Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self.timing = enable_timing

    def record(self) -> None:
        self.at = getattr(_state, "now", 0.0)

    def synchronize(self) -> None: ...

    def elapsed_time(self, later: Event) -> float:
        if not (self.timing and later.timing):
            raise RuntimeError("events without timing")
        return 1e3 * (later.at - self.at)


class Stream:
    def wait_stream(self, other: Stream) -> None: ...


def current_stream() -> Stream:
    return Stream()


@contextlib.contextmanager
def stream(which: Stream) -> Iterator[None]:
    yield


def synchronize() -> None: ...


def empty_cache() -> None: ...


def set_device(index: int) -> None: ...


def get_device_properties(index: int) -> Any:
    return SimpleNamespace(multi_processor_count=132)


def mem_get_info() -> tuple[int, int]:
    return FREE_BYTES, 2 * FREE_BYTES
