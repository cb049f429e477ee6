"""The timing of ``timing`` for kernels that only torch can launch: replays of a torch graph between torch events."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from specadvisor.calibration.timing import Effort, Timing, has_settled


def measure_torch(torch: Any, call: Callable[[int], Any], sets: int, effort: Effort) -> Timing:
    """Seconds of ``call(i)`` on operand set ``i``; one graph holds a whole number of turns of the rotation."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # first calls compile and load code, which a capture cannot
        for i in range(min(sets, 3)):
            call(i)
    torch.cuda.synchronize()
    (first,) = _replays(torch, _captured(torch, call, sets, sets), 1)
    estimate = max(first / sets, 1e-7)
    calls = math.ceil(max(1, min(2000, effort.replay_s / estimate)) / sets) * sets
    graph = _captured(torch, call, sets, calls)
    seconds: list[float] = []
    settled = False
    end = time.perf_counter() + effort.budget_s
    while len(seconds) + effort.min_samples <= effort.max_samples and not settled:
        seconds += [s / calls for s in _replays(torch, graph, effort.min_samples)]
        settled = has_settled(seconds, effort)
        if time.perf_counter() > end:
            break
    return Timing.of(seconds, calls, settled)


def _captured(torch: Any, call: Callable[[int], Any], sets: int, calls: int) -> Any:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i % sets)
    return graph


def _replays(torch: Any, graph: Any, count: int) -> list[float]:
    """Seconds of ``count`` replays behind one that is not counted (the reason: ``timing.replays``)."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    graph.replay()
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    events[-1].synchronize()
    return [1e-3 * float(before.elapsed_time(after)) for before, after in itertools.pairwise(events)]
