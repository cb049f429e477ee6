"""What ``calibrate --device cpu`` measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specadvisor.calibration.cpu_machine import EFFORT, QUICK_EFFORT, ROUNDS, cold_sets
from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Plan, Section, model_shapes
from specadvisor.calibration.timing import Effort

if TYPE_CHECKING:
    from specadvisor.model.architecture import Architecture

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
QUICK_ROWS = (1, 2, 8, 16, 32, 64, 128)
SHAPES = ((1024, 4096), (4096, 1024), (2048, 2048), (4096, 4096), (8192, 2048))
QUICK_SHAPES = ((1024, 1024), (2048, 1024), (1024, 2048))
# Query heads per KV head: with one, a plain decoding step would be a single row, for which a BLAS has another routine, and
# the law of attention no step.
GROUPS = (2, 4)
# What planning takes for granted, measured with one thread on an idle EPYC: operations and bytes per second of a product,
# bytes per second of filling operands, seconds per random weight, and those per key of a KV head, for all rows and for each.
_FLOPS, _PACK_BYTES, _FILL_BYTES, _RANDOM_S = 8e10, 1e10, 2.7e9, 8e-9
_KEY_S, _KEY_ROW_S = 8e-8, 5e-9
# Facts of the machine, sentinels and fit, beside what they measure.
_OTHER_S = 1.6


def make_cpu_plan(*, quick: bool = False, model: Architecture | None = None, tp: int = 1) -> Plan:
    """Matrix products and verify attention in fp32, in seconds of an idle machine; ``model`` brings its own shapes."""
    effort = QUICK_EFFORT if quick else EFFORT
    shapes = model_shapes(model, tp)[:5] if model else (QUICK_SHAPES if quick else SHAPES)
    products = tuple(GemmPoint("fp32", m, n, k) for n, k in shapes for m in (QUICK_ROWS if quick else ROWS))
    contexts = ((1, 4096), (4, 2048)) if quick else ((1, 2048), (1, 8192), (4, 2048))
    attention = tuple(
        AttentionPoint(b, q, s, group, 2, 64, "fp32")
        for b, s in contexts
        for group in GROUPS
        for q in ((1, 2, 4, 8) if quick else (1, 2, 4, 8, 16))
    )
    calls_s = [2.0 * p.m * p.n * p.k / _FLOPS + 4.0 * p.n * p.k / _PACK_BYTES for p in products]
    products_s = sum(_point_s(s, effort) for s in calls_s) + ROUNDS * sum(_fill_s(4.0 * n * k) for n, k in shapes)
    attention_s = sum(
        _point_s(p.batch * p.kv_heads * p.context * (_KEY_S + _KEY_ROW_S * p.rows), effort)
        + ROUNDS * _fill_s(2.0 * p.cache_bytes)
        for p in attention
    )
    return Plan(
        (
            Section("GEMM fp32", "gemm", products, round(products_s, 2)),
            Section("attention fp32", "attention", attention, round(attention_s, 2)),
        ),
        other_s=_OTHER_S + 4.0 * effort.budget_s,
    )


def _point_s(call_s: float, effort: Effort) -> float:
    """Seconds of one point in all rounds: until the budget is used, but at least the fewest samples."""
    return max(effort.budget_s, ROUNDS * effort.min_samples * call_s) + ROUNDS * call_s


def _fill_s(bytes_per_set: float) -> float:
    """Seconds to fill the operand sets that rotate past the caches."""
    return cold_sets(bytes_per_set) * bytes_per_set / _FILL_BYTES + _RANDOM_S * bytes_per_set / 4.0
