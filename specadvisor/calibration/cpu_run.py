"""The same calibration on the machine's own processor: matrix products and attention through numpy's BLAS, fp32.

It measures what numpy does: a BLAS that packs the weight anew for every product of more than one row, so that a second row
costs more here than in an engine that keeps its weights packed.
"""

from __future__ import annotations

import math
import platform
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration import quality, reference
from specadvisor.calibration.checks import require
from specadvisor.calibration.cpu_machine import ROUNDS, blas_name, cold_sets, measure_call, model_name, thread_count
from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Plan
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.run import Progress, Run
from specadvisor.calibration.timing import Effort

FORMAT = "fp32"
# The laws know no fp32 cache: it is counted as a 16-bit one, and the fitted share of the bandwidth halves.
CACHE_FORMAT = "bf16"
# Row tiles that advice for llama.cpp without matrix units counts with; numpy has none, but a fit must use the same.
TILES = (8, 16, 32)
FP32_TOLERANCE = 1e-4
Array = NDArray[np.float32]


def run_on_cpu(plan: Plan, engine: str, progress: Progress, effort: Effort) -> Run:
    """Check against float64, then measure every section of ``plan``."""
    check()
    run = Run()
    sentinels = [_sentinel(effort)]
    run.rows = measure_plan(plan, engine, progress, effort)
    sentinels.append(_sentinel(effort))
    run.notes += quality.check_drift(sentinels, quality.CPU_DRIFT_LIMIT)
    run.notes += quality.noise_notes(run.rows)
    run.conditions = {
        "measured_on": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": model_name(),
        "threads": thread_count(),
        "blas": blas_name(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "sentinels_us": [{k: round(v * 1e6, 1) for k, v in s.items()} for s in sentinels],
    }
    progress(plan.seconds, "done")
    return run


def measure_plan(plan: Plan, engine: str, progress: Progress, effort: Effort) -> list[Row]:
    """Rows in the order of the plan: all points in ``ROUNDS`` rounds, the fastest of each, as other programs come and go."""
    effort = replace(effort, budget_s=effort.budget_s / ROUNDS)
    best: dict[Any, Row] = {}
    weights = _Weights()
    for round_ in range(ROUNDS):
        done_s = plan.seconds * round_ / ROUNDS
        for section in plan.sections:
            for i, point in enumerate(section.points):
                progress(done_s + section.seconds * i / len(section.points) / ROUNDS, section.name)
                if section.operator == "gemm":
                    new = measure_product(weights, point, engine, effort)
                else:
                    new = measure_attention(point, engine, effort)
                best[point] = min(best.get(point, new), new, key=lambda r: r.us)
            done_s += section.seconds / ROUNDS
    return list(best.values())


def _sentinel(effort: Effort) -> dict[str, float]:
    a = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)
    return {"matrix product": measure_call(lambda i: a @ a, 1, effort).median_s}


class _Weights:
    """Weight copies of one shape, kept until another shape is asked for: filling them costs more than a measurement."""

    def __init__(self) -> None:
        self._shape = (0, 0)
        self._copies: list[Array] = []

    def of(self, n: int, k: int) -> list[Array]:
        if self._shape != (n, k):
            self._copies.clear()
            one = np.random.default_rng(n).standard_normal((n, k), dtype=np.float32)
            self._shape, self._copies = (n, k), [one, *(one.copy() for _ in range(cold_sets(one.nbytes) - 1))]
        return self._copies


def measure_product(weights: _Weights, point: GemmPoint, engine: str, effort: Effort) -> Row:
    """y[m, n] = x[m, k] W[n, k]^T on rotating weights."""
    copies = weights.of(point.n, point.k)
    x = np.random.default_rng(1).standard_normal((point.m, point.k), dtype=np.float32)
    y = np.empty((point.m, point.n), np.float32)
    timing = measure_call(lambda i: np.matmul(x, copies[i].T, out=y), len(copies), effort)
    shape = {"m": point.m, "n": point.n, "k": point.k, "sets": len(copies)}
    return row("gemm", FORMAT, timing, engine=engine, kernel="numpy", engine_version=blas_name(), **shape)


def attention_step(q: Array, k: Array, v: Array, visible: NDArray[np.bool_]) -> Array:
    """Packed verify attention: q [batch, kv_heads, rows, dim], k and v [batch, kv_heads, context, dim]."""
    score = q @ k.swapaxes(-1, -2) / np.float32(math.sqrt(q.shape[-1]))
    score = np.where(visible, score, np.float32(-np.inf))
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    return np.asarray((weight / weight.sum(axis=-1, keepdims=True)) @ v)


def visible_keys(query_tokens: int, group: int, context: int) -> NDArray[np.bool_]:
    """[rows, context]: causal from the bottom right, rows packed as (token, head of the group)."""
    last = context - query_tokens + np.arange(query_tokens * group) // group
    return np.asarray(np.arange(context)[None, :] <= last[:, None])


def measure_attention(point: AttentionPoint, engine: str, effort: Effort) -> Row:
    """One verify step on rotating caches."""
    rng = np.random.default_rng(2)
    shape = (point.batch, point.kv_heads, point.context, point.head_dim)
    one = [rng.standard_normal(shape, dtype=np.float32) for _ in range(2)]
    caches = [(one[0].copy(), one[1].copy()) for _ in range(cold_sets(2 * one[0].nbytes))]
    q = rng.standard_normal((point.batch, point.kv_heads, point.rows, point.head_dim), dtype=np.float32)
    visible = visible_keys(point.query_tokens, point.group, point.context)
    timing = measure_call(lambda i: attention_step(q, caches[i][0], caches[i][1], visible), len(caches), effort)
    return row(
        "attention",
        CACHE_FORMAT,
        timing,
        engine=engine,
        kernel="numpy",
        engine_version=blas_name(),
        sets=len(caches),
        batch=point.batch,
        query_tokens=point.query_tokens,
        context=point.context,
        heads=point.kv_heads * point.group,
        kv_heads=point.kv_heads,
        head_dim=point.head_dim,
        tile_rows=next((tile for tile in TILES if tile >= point.rows), TILES[-1]),
    )


def check() -> None:
    """Product and attention against float64; raises ``CheckFailed``."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((5, 64), dtype=np.float32), rng.standard_normal((32, 64), dtype=np.float32)
    want = x.astype(float) @ w.astype(float).T
    require("The matrix product of numpy", reference.relative_error((x @ w.T).astype(float), want), FP32_TOLERANCE)
    tokens, group, kv_heads, dim, context = 3, 2, 2, 16, 20
    q = rng.standard_normal((1, tokens, kv_heads * group, dim))
    k, v = rng.standard_normal((2, 1, context, kv_heads, dim))
    packed = q.reshape(1, tokens, kv_heads, group, dim).transpose(0, 2, 1, 3, 4).reshape(1, kv_heads, tokens * group, dim)
    one, keys, values = (np.ascontiguousarray(a, np.float32) for a in (packed, k.swapaxes(1, 2), v.swapaxes(1, 2)))
    got = attention_step(one, keys, values, visible_keys(tokens, group, context))
    unpacked = got.reshape(1, kv_heads, tokens, group, dim).transpose(0, 2, 1, 3, 4).reshape(q.shape)
    want = reference.attention(q, k, v, np.array([context]))
    require("The attention of numpy", reference.relative_error(unpacked.astype(float), want), FP32_TOLERANCE)
