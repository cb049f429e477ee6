"""The timing of ``timing`` for kernels that only torch can launch: replays of a torch graph between torch events."""

from __future__ import annotations

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
    probe = _captured(torch, call, sets, sets)
    _replay_s(torch, probe)
    estimate = max(_replay_s(torch, probe) / sets, 1e-7)
    calls = math.ceil(max(1, min(2000, effort.replay_s / estimate)) / sets) * sets
    graph = _captured(torch, call, sets, calls)
    _replay_s(torch, graph)
    seconds: list[float] = []
    end = time.perf_counter() + effort.budget_s
    while True:
        seconds.append(_replay_s(torch, graph) / calls)
        settled = has_settled(seconds, effort)
        late = time.perf_counter() > end and len(seconds) >= effort.min_samples
        if settled or late or len(seconds) >= effort.max_samples:
            return Timing.of(seconds, calls, settled)


def _captured(torch: Any, call: Callable[[int], Any], sets: int, calls: int) -> Any:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i % sets)
    return graph


def _replay_s(torch: Any, graph: Any) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return 1e-3 * float(start.elapsed_time(stop))
