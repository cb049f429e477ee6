"""The same calibration on the machine's own processor: matrix products and attention through numpy's BLAS, fp32.

It measures what numpy measures: a BLAS that packs the weight anew for every product of more than one row, so a second row
costs more here than in an engine that keeps its weights packed.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration import quality, reference
from specadvisor.calibration.checks import require
from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Plan, Section
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.run import Progress, Run
from specadvisor.calibration.timing import COLD_FACTOR, Effort, Timing, has_settled
from specadvisor.hardware.gpu import Gpu

ID = "cpu"
FORMAT = "fp32"
FP32_TOLERANCE = 1e-4
MAX_SETS = 16
EFFORT = Effort(budget_s=0.2, min_samples=5)
QUICK_EFFORT = Effort(budget_s=0.04, min_samples=3)
Array = NDArray[np.float32]


def thread_count() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_level_cache_bytes() -> int:
    """Size of the largest cache Linux reports, else 32 MiB."""
    sizes = [p.read_text().strip() for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max([int(s[:-1]) << 10 for s in sizes if s.endswith("K")], default=32 << 20)


def measure_call(call: Callable[[int], Any], sets: int, effort: Effort) -> Timing:
    """Seconds of ``call(i)`` on rotating operand sets; stops when the samples agree or the time is used up."""
    call(0)
    seconds: list[float] = []
    end = time.perf_counter() + effort.budget_s
    settled = False
    while not settled:
        start = time.perf_counter()
        call(len(seconds) % sets)
        seconds.append(time.perf_counter() - start)
        settled = len(seconds) >= sets and has_settled(seconds, effort)
        if time.perf_counter() > end and len(seconds) >= effort.min_samples:
            break
    return Timing.of(seconds, 1, settled)


def describe_cpu(effort: Effort) -> Gpu:
    """The processor as the kernel laws need it: its "datasheet" is what a large read and a large product reach here."""
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(max(1 << 24, last_level_cache_bytes()), dtype=np.float32)
    read = measure_call(lambda i: np.dot(vector, vector), 1, effort)
    a, b = (rng.standard_normal((1536, 1536), dtype=np.float32) for _ in range(2))
    product = measure_call(lambda i: a @ b, 1, effort)
    flops = 2.0 * 1536**3 / product.q25_s
    return Gpu(
        id=ID,
        name=platform.processor() or platform.machine(),
        family="cpu",
        sm=1,
        memory_bytes_per_s=vector.nbytes / read.q25_s,
        memory_bytes=float(_memory_bytes()),
        sm_count=thread_count(),
        l2_bytes=float(last_level_cache_bytes()),
        peaks={"bf16": flops},
        link_bytes_per_s=0.0,
        nvlink=False,
        pcie_bytes_per_s=0.0,
        boost_hz=_clock_hz(),
        tdp_w=1.0,
        gpus_per_node=1,
        confidence="measured",
        source="specadvisor calibrate --device cpu",
    )


def _memory_bytes() -> int:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30


def _clock_hz() -> float:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return float(path.read_text()) * 1e3 if path.is_file() else 3e9


def run_on_cpu(
    plan: Plan, engine: str, progress: Progress, effort: Effort, clock: Callable[[], float] = time.perf_counter
) -> Run:
    """Check against float64, then measure every section of ``plan``."""
    _check()
    run = Run()
    sentinels = [_sentinel(effort)]
    done_s = 0.0
    start = clock()
    for section in plan.sections:
        for i, point in enumerate(section.points):
            progress(done_s + section.seconds * i / len(section.points), section.name)
            run.rows.append(_measure(section, point, engine, effort))
        done_s += section.seconds
    sentinels.append(_sentinel(effort))
    progress(plan.seconds, "done")
    try:
        run.notes += quality.check_drift(sentinels)
    except quality.Unreliable:
        run.notes.append("the processor was busy with other work during the run: times scatter by more than 15%")
    run.notes += quality.noise_notes(run.rows)
    run.conditions = {
        "measured_on": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "device": platform.processor() or platform.machine(),
        "threads": thread_count(),
        "numpy": np.__version__,
        "blas": _blas(),
        "python": platform.python_version(),
        "wall_s": round(clock() - start, 1),
        "sentinels_us": [{k: round(v * 1e6, 1) for k, v in s.items()} for s in sentinels],
    }
    return run


def _blas() -> str:
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _sentinel(effort: Effort) -> dict[str, float]:
    a = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)
    return {"matrix product": measure_call(lambda i: a @ a, 1, effort).median_s}


def _measure(section: Section, point: Any, engine: str, effort: Effort) -> Row:
    return _measure_gemm(point, engine, effort) if section.operator == "gemm" else _measure_attention(point, engine, effort)


def cold_sets(bytes_per_set: float) -> int:
    """Operand sets past five times the last-level cache, at most ``MAX_SETS``."""
    return max(1, min(MAX_SETS, math.ceil(COLD_FACTOR * last_level_cache_bytes() / bytes_per_set)))


_weights: dict[tuple[int, int], list[Array]] = {}


def _weights_of(n: int, k: int) -> list[Array]:
    """Weight copies of one shape, kept until another shape is asked for: filling them costs more than a measurement."""
    if (n, k) not in _weights:
        _weights.clear()
        rng = np.random.default_rng(n)
        one = rng.standard_normal((n, k), dtype=np.float32)
        _weights[(n, k)] = [one, *(one.copy() for _ in range(cold_sets(one.nbytes) - 1))]
    return _weights[(n, k)]


def _measure_gemm(point: GemmPoint, engine: str, effort: Effort) -> Row:
    weights = _weights_of(point.n, point.k)
    x = np.random.default_rng(1).standard_normal((point.m, point.k), dtype=np.float32)
    y = np.empty((point.m, point.n), np.float32)
    timing = measure_call(lambda i: np.matmul(x, weights[i].T, out=y), len(weights), effort)
    shape = {"m": point.m, "n": point.n, "k": point.k, "sets": len(weights)}
    return row("gemm", FORMAT, timing, engine=engine, kernel=f"numpy {_blas()}", **shape)


def attention_step(q: Array, k: Array, v: Array, visible: NDArray[np.bool_]) -> Array:
    """Packed verify attention: q [batch, kv_heads, rows, dim], k and v [batch, kv_heads, context, dim]."""
    score = q @ k.swapaxes(-1, -2) / np.float32(math.sqrt(q.shape[-1]))
    score = np.where(visible, score, np.float32(-np.inf))
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    return np.asarray((weight / weight.sum(axis=-1, keepdims=True)) @ v)


def visible_keys(query_tokens: int, group: int, context: int) -> NDArray[np.bool_]:
    """[rows, context]: causal from the bottom right, rows packed as (token, head of the group)."""
    last = context - query_tokens + np.arange(query_tokens * group) // group
    return np.arange(context)[None, :] <= last[:, None]


def _measure_attention(point: AttentionPoint, engine: str, effort: Effort) -> Row:
    rng = np.random.default_rng(2)
    shape = (point.batch, point.kv_heads, point.context, point.head_dim)
    one = [rng.standard_normal(shape, dtype=np.float32) for _ in range(2)]
    sets = min(4, cold_sets(2 * one[0].nbytes))
    caches = [one, *([a.copy() for a in one] for _ in range(sets - 1))]
    q = rng.standard_normal((point.batch, point.kv_heads, point.rows, point.head_dim), dtype=np.float32)
    visible = visible_keys(point.query_tokens, point.group, point.context)
    timing = measure_call(lambda i: attention_step(q, *caches[i], visible), sets, effort)
    return row(
        "attention", FORMAT, timing, engine=engine, kernel=f"numpy {_blas()}", sets=sets, batch=point.batch,
        query_tokens=point.query_tokens, context=point.context, heads=point.kv_heads * point.group, kv_heads=point.kv_heads,
        head_dim=point.head_dim,
    )  # fmt: skip


def _check() -> None:
    """Product and attention against float64; raises ``CheckFailed``."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((5, 64), dtype=np.float32), rng.standard_normal((32, 64), dtype=np.float32)
    want = x.astype(float) @ w.astype(float).T
    require("The matrix product of numpy", reference.relative_error((x @ w.T).astype(float), want), FP32_TOLERANCE)
    tokens, group, kv_heads, dim, context = 3, 2, 2, 16, 20
    q = rng.standard_normal((1, tokens, kv_heads * group, dim))
    k, v = rng.standard_normal((2, 1, context, kv_heads, dim))
    packed = q.reshape(1, tokens, kv_heads, group, dim).transpose(0, 2, 1, 3, 4).reshape(1, kv_heads, tokens * group, dim)
    operands = [np.ascontiguousarray(a, np.float32) for a in (packed, k.swapaxes(1, 2), v.swapaxes(1, 2))]
    got = attention_step(*operands, visible_keys(tokens, group, context))
    unpacked = got.reshape(1, kv_heads, tokens, group, dim).transpose(0, 2, 1, 3, 4).reshape(q.shape)
    want = reference.attention(q, k, v, np.array([context]))
    require("The attention of numpy", reference.relative_error(unpacked.astype(float), want), FP32_TOLERANCE)
