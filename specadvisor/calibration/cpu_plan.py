"""What ``calibrate --device cpu`` measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Plan, Section, model_shapes

if TYPE_CHECKING:
    from specadvisor.model.architecture import Architecture

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
QUICK_ROWS = (1, 2, 8, 16, 32, 64, 128)
SHAPES = ((1024, 4096), (4096, 1024), (2048, 2048), (4096, 4096), (8192, 2048))
QUICK_SHAPES = ((1024, 1024), (2048, 1024), (1024, 2048))
# Query heads per KV head: with one, a plain decoding step would be a single row, for which a BLAS has another routine, and
# the law of attention no step.
GROUPS = (2, 4)
# A product of this many operations is planned to take a second.
_FLOPS = 1e11


def make_cpu_plan(*, quick: bool = False, model: Architecture | None = None, tp: int = 1, point_s: float | None = None) -> Plan:
    """Matrix products and verify attention in fp32; ``model`` brings its own weight shapes."""
    seconds = point_s or (0.05 if quick else 0.25)
    shapes = model_shapes(model, tp)[:5] if model else (QUICK_SHAPES if quick else SHAPES)
    products = tuple(GemmPoint("fp32", m, n, k) for n, k in shapes for m in (QUICK_ROWS if quick else ROWS))
    contexts = ((1, 4096), (4, 2048)) if quick else ((1, 2048), (1, 8192), (4, 2048))
    attention = tuple(
        AttentionPoint(b, q, s, group, 2, 64, "fp32")
        for b, s in contexts
        for group in GROUPS
        for q in ((1, 2, 4, 8) if quick else (1, 2, 4, 8, 16))
    )
    heavy_s = sum(7 * 2.0 * p.m * p.n * p.k / _FLOPS for p in products if p.m > 64)
    return Plan(
        (
            Section("GEMM fp32", "gemm", products, len(products) * seconds + heavy_s),
            Section("attention fp32", "attention", attention, len(attention) * seconds),
        )
    )
