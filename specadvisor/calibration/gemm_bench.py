"""Matrix products through cuBLASLt: what the engines' linear layers run in bf16, and a close relative in fp8 and fp4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specadvisor.calibration import dependencies
from specadvisor.calibration.checks import BF16_TOLERANCE, require
from specadvisor.calibration.cublaslt import CublasLtError, Library, NotSupported, Product
from specadvisor.calibration.gemm_formats import BF16, E4M3, Recipe
from specadvisor.calibration.operands import Bench
from specadvisor.calibration.plan import GemmPoint
from specadvisor.calibration.reference import from_bf16, relative_error
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.timing import COLD_FACTOR, Effort, measure

# At these M the other proposals of the heuristic are timed too: what autotuning would gain.
AUTOTUNE_ROWS = (1, 64, 256)
# Hopper's fp8 units keep 14 bits of a sum.
FP8_TOLERANCE = 1.5e-2
_EFFORT = Effort()


def open_library(bench: Bench) -> Library:
    """cuBLASLt with the workspace that torch gives it on this GPU; raises ``MissingDependency``."""
    size = (32 if bench.device.compute_capability >= 90 else 8) << 20
    hint = dependencies.extra_for_driver(bench.device.driver_version)
    return Library(bench.allocate(size), size, hint)


class Operands:
    """Weights (``sets`` copies), input and output of one weight shape, for up to ``max_m`` rows."""

    def __init__(self, bench: Bench, recipe: Recipe, max_m: int, n: int, k: int, sets: int) -> None:
        weight_bytes, input_bytes = int(n * k * recipe.element_bytes), int(max_m * k * recipe.element_bytes)
        stride = -(-weight_bytes // 256) * 256  # one allocation: a thousand small ones take longer than the measurement
        first = bench.allocate(stride * sets)
        self.weights = [first + i * stride for i in range(sets)]
        self.x, self.y = bench.allocate(input_bytes), bench.allocate(max_m * n * 2)
        self.weight_scale, self.input_scale = _scales(bench, recipe, n, k, True), _scales(bench, recipe, max_m, k, False)
        for pointer, size in ((first, stride * sets), (self.x, input_bytes)):
            if recipe.data_type == BF16:
                bench.fill_bf16(pointer, size, 0.25)
            else:
                bench.fill_bits(pointer, size)


def _scales(bench: Bench, recipe: Recipe, rows: int, k: int, weight: bool) -> int:
    """Unit scale factors in the layout the recipe wants; all being one, the order of the tiled layouts does not matter."""
    size = recipe.scale_bytes(rows, k, weight)
    if not size:
        return 0
    pointer = bench.allocate(size)
    if recipe.unit_scale_byte is None:
        bench.device.upload(pointer, np.ones(size // 4, np.float32))
    else:
        bench.device.set_bytes(pointer, recipe.unit_scale_byte, size)
    return pointer


def check_product(bench: Bench, library: Library, recipe: Recipe) -> None:
    """A small product against float64; raises ``CheckFailed``, or ``NotSupported`` where this GPU has no kernel for it."""
    m, n, k = 16, 256, 512
    device, width = bench.device, recipe.element_bytes
    with bench.scratch():
        operands = Operands(bench, recipe, m, n, k, 1)
        device.set_bytes(operands.y, 0xFF, m * n * 2)
        product = Product(library, recipe, m, n, k, operands.weight_scale, operands.input_scale)
        product.run(bench.stream, operands.weights[0], operands.x, operands.y)
        device.synchronise()
        weight = recipe.decoded(device.read(operands.weights[0], (n, int(k * width)), np.uint8))
        x = recipe.decoded(device.read(operands.x, (m, int(k * width)), np.uint8))
        got = from_bf16(device.read(operands.y, (m, n), np.uint16))
        product.close()
    tolerance = FP8_TOLERANCE if recipe.data_type == E4M3 else BF16_TOLERANCE
    require(f"The {recipe.format} matrix product of cuBLASLt", relative_error(got, x @ weight.T), tolerance)


def measure_products(
    bench: Bench, library: Library, recipe: Recipe, points: Sequence[GemmPoint], step: Callable[[], None], engine: str
) -> tuple[list[Row], list[str]]:
    """(rows, notes) of one format; points grouped by weight shape, so that each weight is filled once."""
    rows: list[Row] = []
    notes: list[str] = []
    without: list[str] = []
    for n, k in dict.fromkeys((p.n, p.k) for p in points):
        ms = [p.m for p in points if (p.n, p.k) == (n, k)]
        sets = bench.sets_that_fit(n * k * recipe.element_bytes)
        if sets == 0:
            notes.append(f"GEMM {recipe.format} {n}x{k}: the weight does not fit into free memory, not measured")
            for _ in ms:
                step()
            continue
        if sets > 1 and (sets - 1) * n * k * recipe.element_bytes < COLD_FACTOR * bench.device.l2_bytes:
            notes.append(
                f"GEMM {recipe.format} {n}x{k}: {sets} copies are less than {COLD_FACTOR:.0f} times the L2 cache, so some "
                "reads hit it"
            )
        with bench.scratch():
            operands = Operands(bench, recipe, recipe.padded(max(ms)), n, k, sets)
            for m in ms:
                step()
                try:
                    rows += _measure_one(bench, library, recipe, operands, m, n, k, engine, first=(n, k) == _first(points))
                except NotSupported:
                    without.append(f"{m}x{n}x{k}")
            bench.device.synchronise()
    if without:
        notes.append(
            f"GEMM {recipe.format}: cuBLASLt has no kernel for {len(without)} of {len(points)} shapes, such as {without[0]}"
        )
    return rows, notes


def _first(points: Sequence[GemmPoint]) -> tuple[int, int]:
    return points[0].n, points[0].k


def _measure_one(
    bench: Bench, library: Library, recipe: Recipe, operands: Operands, m: int, n: int, k: int, engine: str, first: bool
) -> list[Row]:
    product = Product(library, recipe, recipe.padded(m), n, k, operands.weight_scale, operands.input_scale)
    weights, sets = operands.weights, len(operands.weights)
    rows = []
    try:
        proposals = product.algorithms if first and m in AUTOTUNE_ROWS else 1
        for index in range(proposals):

            def call(stream: Any, i: int, index: int = index) -> None:
                product.run(stream, weights[i], operands.x, operands.y, index)

            effort = _EFFORT if index == 0 else Effort(budget_s=0.03, min_samples=5)
            try:
                timing = measure(bench.device, call, sets, effort)
            except CublasLtError:
                if index == 0:
                    raise
                continue  # a later proposal may need what this GPU lacks
            facts = " ".join(f"{name}={value:g}" for name, value in product.algorithm(index).items())
            kernel = {"kernel": "cublasLt", "engine_version": f"cuBLASLt {library.version}"}
            shape = {"m": m, "n": n, "k": k, "sets": sets}
            rows.append(row("gemm", recipe.format, timing, engine=engine, auto=index == 0, note=facts, **kernel, **shape))
    finally:
        product.close()
    return rows
