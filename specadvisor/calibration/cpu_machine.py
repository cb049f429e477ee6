"""The processor: its facts, and the time of one call on it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from specadvisor.calibration.rows import Row
from specadvisor.calibration.timing import COLD_FACTOR, Effort, Timing, has_settled
from specadvisor.hardware.gpu import Gpu

ID = "cpu"
EFFORT = Effort(budget_s=0.3, min_samples=6)
QUICK_EFFORT = Effort(budget_s=0.04, min_samples=3)
# All points are measured so many times over, the fastest counts.
ROUNDS = 2
MAX_SETS = 128
# The fit drops rows that beat the stated bandwidth as impossible; what one long read reached is not the limit.
HEADROOM = 1.15
_SIDE = 1536


def thread_count() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_level_cache_bytes() -> int:
    """Size of the largest cache Linux reports, else 32 MiB."""
    sizes = [p.read_text().strip() for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max([int(s[:-1]) << 10 for s in sizes if s.endswith("K")], default=32 << 20)


def cold_sets(bytes_per_set: float) -> int:
    """Operand sets past five times the last-level cache."""
    return max(1, min(MAX_SETS, int(COLD_FACTOR * last_level_cache_bytes() / bytes_per_set) + 1))


def undisturbed(seconds: list[float]) -> list[float]:
    """The faster half: other programs on the same processor only ever add time."""
    return sorted(seconds)[: max(3, (len(seconds) + 1) // 2)]


def measure_call(call: Callable[[int], Any], sets: int, effort: Effort) -> Timing:
    """Seconds of ``call(i)`` on rotating operand sets; stops when the undisturbed samples agree or the time is used up."""
    call(sets - 1)
    seconds: list[float] = []
    end = time.perf_counter() + effort.budget_s
    while True:
        start = time.perf_counter()
        call(len(seconds) % sets)
        seconds.append(time.perf_counter() - start)
        settled = len(seconds) >= 2 * effort.min_samples and has_settled(undisturbed(seconds), effort)
        if settled or (time.perf_counter() > end and len(seconds) >= effort.min_samples):
            return Timing.of(undisturbed(seconds), 1, settled)


def describe_cpu(effort: Effort) -> Gpu:
    """The processor as the kernel laws need it: its "datasheet" is what a long read and a large product reach here."""
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(max(1 << 24, last_level_cache_bytes()), dtype=np.float32)
    read = measure_call(lambda i: np.dot(vector, vector), 1, effort)
    a, b = (rng.standard_normal((_SIDE, _SIDE), dtype=np.float32) for _ in range(2))
    product = measure_call(lambda i: a @ b, 1, effort)
    return Gpu(
        id=ID,
        name=model_name(),
        family="cpu",
        sm=1,
        memory_bytes_per_s=HEADROOM * vector.nbytes / read.median_s,
        memory_bytes=float(_memory_bytes()),
        sm_count=thread_count(),
        l2_bytes=float(last_level_cache_bytes()),
        peaks={"bf16": 2.0 * _SIDE**3 / product.median_s},
        link_bytes_per_s=0.0,
        nvlink=False,
        pcie_bytes_per_s=0.0,
        boost_hz=_clock_hz(),
        tdp_w=1.0,
        gpus_per_node=1,
        confidence="measured",
        source="specadvisor calibrate --device cpu",
    )


def with_reached_speeds(gpu: Gpu, rows: Sequence[Row]) -> Gpu:
    """``gpu`` with at least the speeds that the run itself reached: the first look may have been disturbed."""
    products = [r for r in rows if r.operator == "gemm" and r.m and r.n and r.k]
    flops = max((2.0 * (r.m or 0) * (r.n or 0) * (r.k or 0) / r.us * 1e6 for r in products), default=0.0)
    read = max((4.0 * (r.n or 0) * (r.k or 0) / r.us * 1e6 for r in products if r.m == 1), default=0.0)
    bandwidth = max(gpu.memory_bytes_per_s, HEADROOM * read)
    return replace(gpu, memory_bytes_per_s=bandwidth, peaks={"bf16": max(gpu.peaks["bf16"], flops)})


def model_name() -> str:
    """The processor's marketing name where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def blas_name() -> str:
    """The BLAS behind numpy, with its version."""
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _memory_bytes() -> int:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30


def _clock_hz() -> float:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return float(path.read_text()) * 1e3 if path.is_file() else 3e9
