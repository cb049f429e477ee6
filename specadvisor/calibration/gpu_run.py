"""One calibration run on one NVIDIA GPU: checks, sections, sentinels, provenance."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from specadvisor.calibration import memory_bench, nvml, quality
from specadvisor.calibration.attention_bench import Attention, measure_attention
from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.conditions import conditions, sharing_notes
from specadvisor.calibration.cublaslt import CublasLtError, Library, NotSupported, Product
from specadvisor.calibration.dependencies import extra_for_driver
from specadvisor.calibration.driver import Device, is_stand_in
from specadvisor.calibration.engine_run import measure_engine_section
from specadvisor.calibration.gemm_bench import Operands, check_product, measure_products, open_library
from specadvisor.calibration.gemm_formats import RECIPES
from specadvisor.calibration.identify import check_name
from specadvisor.calibration.operands import Bench
from specadvisor.calibration.plan import GemmPoint, Plan, Section
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Progress, Run
from specadvisor.calibration.timing import measure
from specadvisor.errors import MissingDependency
from specadvisor.hardware.gpu import Gpu

COOL_DOWN_S = 3.0
WARM_UP_S = 0.3


class Machine:
    """The open device with its lazily opened libraries. ``warm_up_s``: of work before a sentinel, for its clocks to be up."""

    def __init__(self, device: Device, engine: str, warm_up_s: float = WARM_UP_S) -> None:
        self.bench = Bench(device)
        self.attention = Attention(self.bench)
        self.engine, self.warm_up_s = engine, warm_up_s
        # far past the last-level cache where memory allows, and the same each time
        self.sentinel_bytes = int(min(max(8 * device.l2_bytes, 64 << 20), 0.3 * device.free_bytes()))
        self.library: Library | None = None
        self.library_missing = ""
        try:
            self.library = open_library(self.bench)
        except MissingDependency as error:
            self.library_missing = f"cuBLASLt was not found ({error.hint})"
        except CublasLtError as error:  # a library of another CUDA than the driver's
            self.library_missing = f"{error} Install the one for this driver: {extra_for_driver(device.driver_version)}"

    def close(self) -> None:
        if self.library:
            self.library.close()


def run_on_gpu(
    device: Device,
    gpu: Gpu,
    plan: Plan,
    engine: str,
    progress: Progress,
    cool_down_s: float = COOL_DOWN_S,
    warm_up_s: float = WARM_UP_S,
) -> Run:
    """Measure every section of ``plan``; raises if a check fails or the machine did not hold still."""
    run = Run(stand_in=is_stand_in(), notes=[*check_name(device.name, gpu), *plan.left_out])
    nvml_facts = nvml.facts(device.uuid)
    machine = Machine(device, engine, warm_up_s)
    try:
        memory_bench.check_copy(machine.bench)
        seen = [sentinels(machine)]
        clocks: dict[str, Any] = {}
        done_s = 0.0
        for i, section in enumerate(plan.sections):
            rows, notes, sampled = _steady(machine, section, progress, done_s, cool_down_s)
            run.rows += rows
            run.notes += notes
            if section.operator == "memory":
                run.notes += quality.check_bandwidth(
                    rows, gpu.memory_bytes_per_s, device.l2_bytes, part_of_gpu=bool(nvml_facts.get("mig"))
                )
            clocks[section.name] = sampled.summary()
            done_s += section.seconds
            if i == len(plan.sections) // 2:
                seen.append(sentinels(machine))
        seen.append(sentinels(machine))
        run.notes += quality.check_drift(seen)
        run.notes += quality.noise_notes(run.rows)
        run.notes += sharing_notes(nvml_facts)
        run.conditions = conditions(machine.bench, machine.library, nvml_facts, seen, clocks, run)
        progress(plan.seconds, "done")
    finally:
        machine.close()
    return run


def _steady(
    machine: Machine, section: Section, progress: Progress, done_s: float, cool_down_s: float
) -> tuple[list[Row], list[str], nvml.Clocks]:
    """One section; measured a second time after a pause if the clocks were throttled, and given up after that."""
    seen: list[str] = []
    for attempt in range(2):
        step = _stepper(section, progress, done_s)
        with nvml.sampled(machine.bench.device.uuid) as clocks:
            rows, notes = _measure(machine, section, step)
        seen = clocks.spoiled
        if not seen:
            return rows, notes, clocks
        if attempt == 0:
            progress(done_s, f"{section.name}: throttled, cooling down")
            time.sleep(cool_down_s)
    raise Unreliable(
        f"The GPU throttled twice while measuring {section.name} ({', '.join(seen)}): its times would describe the "
        "cooling, not the kernels. Nothing was written. Improve cooling or lower the load, then calibrate again."
    )


def _stepper(section: Section, progress: Progress, done_s: float) -> Callable[[], None]:
    share = section.seconds / max(1, len(section.points))
    position = iter(range(len(section.points) + 1))

    def step() -> None:
        progress(done_s + share * next(position, len(section.points)), section.name)

    return step


def _measure(machine: Machine, section: Section, step: Callable[[], None]) -> tuple[list[Row], list[str]]:
    bench = machine.bench
    if section.operator == "memory":
        return memory_bench.bandwidth(bench, section.points, step), []
    if section.operator == "launch":
        return memory_bench.launch_floor(bench, step, full=len(section.points) > 2), []
    if section.operator == "attention":
        return measure_attention(bench, machine.attention, section.points, step)
    if section.operator == "engine":
        return measure_engine_section(section, step, machine.engine, bench.device.compute_capability, bench.device.l2_bytes)
    return _measure_gemm(machine, section, step)


def _measure_gemm(machine: Machine, section: Section, step: Callable[[], None]) -> tuple[list[Row], list[str]]:
    points: tuple[GemmPoint, ...] = section.points
    name = points[0].format
    if machine.library is None:
        for _ in points:
            step()
        return [], [f"GEMM {name}: not measured, {machine.library_missing}"]
    recipe = next(r for r in RECIPES if r.format == name)
    try:
        check_product(machine.bench, machine.library, recipe)
    except NotSupported:
        return [], [f"GEMM {name}: not measured, cuBLASLt {machine.library.version} has no kernel for it on this GPU"]
    except CublasLtError as error:
        return [], [f"GEMM {name}: not measured, {error}"]
    return measure_products(machine.bench, machine.library, recipe, points, step, machine.engine)


def sentinels(machine: Machine) -> dict[str, float]:
    """Seconds of three points that are repeated at start, middle and end, each time after the same warming up."""
    bench = machine.bench
    memory_bench.warm_up(bench, machine.warm_up_s)
    found = {"memory read": memory_bench.read_once(bench, machine.sentinel_bytes)}
    (node, *_) = memory_bench.launch_floor(bench, lambda: None, full=False)
    found["graph node"] = node.us * 1e-6
    if machine.library:
        m, n, k = 256, 4096, 4096
        with contextlib.suppress(CublasLtError), bench.scratch():  # noted where the products themselves are measured
            operands = Operands(bench, RECIPES[0], m, n, k, 1)
            found["matrix product"] = _product_s(machine.library, bench, operands, m, n, k)
    return found


def _product_s(library: Library, bench: Bench, operands: Operands, m: int, n: int, k: int) -> float:
    product = Product(library, RECIPES[0], m, n, k, wanted=1)
    try:
        call = lambda s, i: product.run(s, operands.weights[0], operands.x, operands.y)  # noqa: E731
        return measure(bench.device, call).median_s
    finally:
        product.close()
