"""Time of one call: graph replays between events, rotated operands, robust statistics.

Engines replay graphs, so the gap between two nodes of a graph belongs to a kernel's time; events around single launches
would add launch gaps that no engine pays. The operands rotate, because a decode step finds every layer's weights cold.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.calibration.driver import Device
from specadvisor.calibration.graphs import Event, Graph

COLD_FACTOR = 5.0
MOST_SETS = 1024  # enough for operands of 250 KB beside 50 MB of cache; each is a node of the graph


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call over ``samples`` replays of ``calls`` calls each."""

    median_s: float
    q25_s: float
    q75_s: float
    samples: int
    calls: int
    converged: bool

    @property
    def relative_iqr(self) -> float:
        return (self.q75_s - self.q25_s) / self.median_s if self.median_s > 0 else math.inf

    @classmethod
    def of(cls, seconds: list[float], calls: int, converged: bool) -> Timing:
        q25, median, q75 = np.percentile(seconds, [25, 50, 75])
        return cls(float(median), float(q25), float(q75), len(seconds), calls, converged)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure one point: sampling stops when the IQR is within ``relative_iqr`` of the median, or on a limit."""

    replay_s: float = 1e-3
    warm_s: float = 3e-3
    budget_s: float = 0.08
    min_samples: int = 7
    max_samples: int = 50
    relative_iqr: float = 0.01


def rotation(bytes_per_set: float, cache_bytes: float, limit: int = MOST_SETS) -> int:
    """Operand sets so that one is evicted from the last-level cache before its turn comes again (past 5 times its size)."""
    if bytes_per_set >= COLD_FACTOR * cache_bytes:
        return 1
    return min(limit, math.ceil(COLD_FACTOR * cache_bytes / max(1.0, bytes_per_set)) + 1)


def has_settled(seconds: list[float], effort: Effort) -> bool:
    """Whether enough samples agree."""
    if len(seconds) < effort.min_samples:
        return False
    q25, median, q75 = np.percentile(seconds, [25, 50, 75])
    return bool(q75 - q25 <= effort.relative_iqr * median)


def measure(device: Device, call: Callable[[Any, int], None], sets: int = 1, effort: Effort | None = None) -> Timing:
    """``call(stream, i)`` enqueues one operation on operand set ``i`` (0 .. sets-1).

    One graph holds a whole number of turns of the rotation and lasts about ``effort.replay_s``; each replay is a sample.
    """
    effort = effort or Effort()
    stream = device.stream
    for i in range(min(sets, 2)):  # outside any graph: first launches load code
        call(stream, i)
    device.synchronise()
    events = [Event() for _ in range(effort.min_samples + 1)]

    def captured(calls: int) -> Graph:
        def body(s: Any) -> None:
            for i in range(calls):
                call(s, i % sets)

        return Graph(stream, body)

    probe_calls = max(sets, 3)
    graph = captured(probe_calls)
    try:
        (first,) = replays(graph, stream, events[:2])
        estimate = max(first / probe_calls, 1e-7)
        calls = max(1, min(2000, math.ceil(effort.replay_s / estimate)))
        calls = math.ceil(calls / sets) * sets
        if calls != probe_calls:
            graph.close()
            graph = captured(calls)
        for _ in range(min(20, math.ceil(effort.warm_s / (estimate * calls)))):
            graph.launch(stream)
        seconds: list[float] = []
        converged = False
        end = time.perf_counter() + effort.budget_s
        while len(seconds) + effort.min_samples <= effort.max_samples and not converged:
            seconds += [s / calls for s in replays(graph, stream, events)]
            converged = has_settled(seconds, effort)
            if time.perf_counter() > end:
                break
        return Timing.of(seconds, calls, converged)
    finally:
        graph.close()
        for event in events:
            event.close()


def replays(graph: Graph, stream: Any, events: Sequence[Event]) -> list[float]:
    """Seconds of each replay between neighbouring ``events``.

    A replay that is not counted goes ahead: while the GPU works on it the host queues the others, so that no time in which
    the GPU waits for the host (a launch from Python, tens of microseconds; more under Windows) is taken for the kernel's.
    """
    graph.launch(stream)
    events[0].record(stream)
    for event in events[1:]:
        graph.launch(stream)
        event.record(stream)
    events[-1].synchronise()
    return [after.seconds_since(before) for before, after in itertools.pairwise(events)]
