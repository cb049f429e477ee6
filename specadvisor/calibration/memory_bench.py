"""Copy and read bandwidth, the L2 plateau, the launch floor and the clock that kernels run at."""

from __future__ import annotations

import ctypes
import time
from functools import partial
from typing import Any

import numpy as np

from specadvisor.calibration.checks import require
from specadvisor.calibration.graphs import Graph
from specadvisor.calibration.operands import THREADS, Bench
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.timing import Effort, measure

_EFFORT = Effort(replay_s=2e-3, budget_s=0.1)


def check_copy(bench: Bench) -> None:
    """Random data survives a copy, and the read kernel sees every word of it; raises ``CheckFailed``."""
    device, size = bench.device, 1 << 16
    with bench.scratch():
        source, target, hashes = bench.allocate(size), bench.allocate(size), bench.allocate(bench.grid[0] * THREADS * 4)
        bench.fill_bits(source, size, 0xFFFFFFFF)
        device.set_bytes(target, 0, size)
        _copy(bench, target, source, size)
        _read(bench, hashes, source, size, check=True)
        device.synchronise()
        before, after = device.read(source, (size // 4,), np.uint32), device.read(target, (size // 4,), np.uint32)
        seen = np.bitwise_xor.reduce(device.read(hashes, (bench.grid[0] * THREADS,), np.uint32))
        random = len(np.unique(before)) > 0.9 * len(before)
        require("the copy kernel", float(not (random and np.array_equal(before, after))), 0.5)
        require("the read kernel", float(seen != np.bitwise_xor.reduce(before)), 0.5)


def _copy(bench: Bench, target: int, source: int, size: int) -> None:
    arguments = (ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_uint64(size // 16))
    bench.kernel("copy_vectors").launch(bench.stream, bench.grid, *arguments)


def _read(bench: Bench, hashes: int, source: int, size: int, check: bool = False) -> None:
    arguments = (ctypes.c_void_p(hashes), ctypes.c_void_p(source), ctypes.c_uint64(size // 16), ctypes.c_uint32(check))
    bench.kernel("read_vectors").launch(bench.stream, bench.grid, *arguments)


def _copy_again(bench: Bench, target: int, source: int, size: int, stream: Any, index: int) -> None:
    _copy(bench, target, source, size)


def _read_again(bench: Bench, hashes: int, source: int, size: int, stream: Any, index: int) -> None:
    _read(bench, hashes, source, size)


def _launch_empty(bench: Bench, grid: tuple[int], stream: Any, index: int) -> None:
    bench.kernel("empty_kernel").launch(stream, grid, ctypes.c_void_p(0))


def bandwidth(bench: Bench, sizes: tuple[int, ...], step: Any) -> list[Row]:
    """Rows ``bandwidth`` (read) and ``memory`` (copy) per size; one buffer again and again, so small sizes show L2."""
    rows = []
    with bench.scratch():
        fitting = [size for size in sizes if size <= bench.device.free_bytes() * 0.4]
        largest = max(fitting, default=0)
        source, target = bench.allocate(largest), bench.allocate(largest)
        hashes = bench.allocate(bench.grid[0] * THREADS * 4)
        bench.fill_bits(source, largest, 0xFFFFFFFF)
        for size in fitting:
            step()
            timing = measure(bench.device, partial(_read_again, bench, hashes, source, size), effort=_EFFORT)
            rows.append(row("bandwidth", "read", timing, kernel="own", bytes=size))
            timing = measure(bench.device, partial(_copy_again, bench, target, source, size), effort=_EFFORT)
            rows.append(row("memory", "any", timing, kernel="copy", bytes=2 * size))
    return rows


def warm_up(bench: Bench, seconds: float = 0.3) -> None:
    """Copy until the clocks have left their idle state: the first sentinel must not see them rise."""
    size = int(min(64 << 20, 0.2 * bench.device.free_bytes()))
    with bench.scratch():
        source, target = bench.allocate(size), bench.allocate(size)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(20):
                _copy(bench, target, source, size)
            bench.device.synchronise()


def read_once(bench: Bench, size: int) -> float:
    """Seconds to read ``size`` bytes: a sentinel against drift."""
    with bench.scratch():
        source, hashes = bench.allocate(size), bench.allocate(bench.grid[0] * THREADS * 4)
        bench.fill_bits(source, size, 0xFFFFFFFF)
        return measure(bench.device, partial(_read_again, bench, hashes, source, size), effort=_EFFORT).median_s


def launch_floor(bench: Bench, step: Any, full: bool = True) -> list[Row]:
    """Rows ``launch``: seconds per graph node (one block, a full grid), per host launch, per graph launch with its wait."""
    device, kernel, nothing = bench.device, bench.kernel("empty_kernel"), ctypes.c_void_p(0)
    rows = []
    grids = {"graph node": (1,), "graph node, full grid": (device.sm_count,)}
    for name, grid in list(grids.items())[: 2 if full else 1]:
        step()
        timing = measure(device, partial(_launch_empty, bench, grid), effort=_EFFORT)
        rows.append(row("launch", name, timing, kernel="own"))
    step()
    rows.append(_host_row("host launch", device.synchronise, lambda: kernel.launch(bench.stream, (1,), nothing), 200))
    if full:
        step()
        graph = Graph(bench.stream, lambda s: kernel.launch(s, (1,), nothing))

        def launch_and_wait() -> None:
            graph.launch(bench.stream)
            device.synchronise()

        rows.append(_host_row("graph launch and wait", device.synchronise, launch_and_wait, 50))
        graph.close()
    return rows


def _host_row(name: str, settle: Any, action: Any, repeats: int) -> Row:
    action()
    settle()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    settle()
    return Row(operator="launch", format=name, kernel="own", us=float(np.median(seconds)) * 1e6, samples=repeats)


def clock_hz(bench: Bench) -> float:
    """SM clock as a spinning kernel sees it: cycles over nanoseconds, median over the SMs."""
    blocks = bench.device.sm_count
    with bench.scratch():
        out = bench.allocate(16 * blocks)
        bench.kernel("clock_probe").launch(bench.stream, (blocks,), ctypes.c_void_p(out), ctypes.c_uint64(2_000_000))
        cycles = bench.device.read(out, (blocks, 2), np.uint64).astype(float)
    return float(np.median(cycles[:, 0] / np.maximum(cycles[:, 1], 1.0)) * 1e9)
