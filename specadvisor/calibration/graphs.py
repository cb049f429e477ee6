"""Events and graphs: the part of the driver layer that timing needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specadvisor.calibration.driver import bindings, checked


class Event:
    """A timestamp on a stream."""

    def __init__(self) -> None:
        self._event = checked(bindings().cuEventCreate(0), "Creating an event")

    def record(self, stream: Any) -> None:
        checked(bindings().cuEventRecord(self._event, stream), "Recording an event")

    def synchronise(self) -> None:
        checked(bindings().cuEventSynchronize(self._event), "Waiting for the GPU")

    def seconds_since(self, start: Event) -> float:
        return 1e-3 * float(checked(bindings().cuEventElapsedTime(start._event, self._event), "Reading an event"))

    def close(self) -> None:
        bindings().cuEventDestroy(self._event)


class Graph:
    """What ``body(stream)`` enqueues, replayed with one host call. Its operands must outlive it: pointers are baked in."""

    def __init__(self, stream: Any, body: Callable[[Any], None]) -> None:
        driver = bindings()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        checked(driver.cuStreamBeginCapture(stream, mode), "Capturing a graph")
        try:
            body(stream)
        except BaseException:
            driver.cuStreamEndCapture(stream)  # leaves capture mode; its own error would hide the first one
            raise
        graph = checked(driver.cuStreamEndCapture(stream), "Capturing a graph")
        try:
            self._executable = checked(driver.cuGraphInstantiate(graph, 0), "Building a graph")
        finally:
            driver.cuGraphDestroy(graph)

    def launch(self, stream: Any) -> None:
        checked(bindings().cuGraphLaunch(self._executable, stream), "Replaying a graph")

    def close(self) -> None:
        """May be called again: an interrupt between two graphs closes the first twice."""
        if self._executable is not None:
            bindings().cuGraphExecDestroy(self._executable)
            self._executable = None
