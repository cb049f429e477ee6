"""One calibration run on one NVIDIA GPU: checks, sections, sentinels, provenance."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specadvisor.calibration import compiler, memory_bench, nvml, quality
from specadvisor.calibration.attention_bench import Attention, measure_attention
from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.cublaslt import CublasLtError, Library, NotSupported, Product
from specadvisor.calibration.dependencies import extra_for_driver
from specadvisor.calibration.driver import Device, is_stand_in
from specadvisor.calibration.engine_run import measure_engine_section
from specadvisor.calibration.gemm_bench import Operands, check_product, measure_products, open_library
from specadvisor.calibration.gemm_formats import RECIPES
from specadvisor.calibration.operands import Bench
from specadvisor.calibration.plan import GemmPoint, Plan, Section
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Progress, Run
from specadvisor.calibration.timing import measure
from specadvisor.errors import MissingDependency
from specadvisor.hardware.gpu import Gpu

COOL_DOWN_S = 3.0
WARM_UP_S = 0.3


class _Machine:
    """The open device with its lazily opened libraries."""

    def __init__(self, device: Device, engine: str) -> None:
        self.bench = Bench(device)
        self.attention = Attention(self.bench)
        self.engine = engine
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
    run = Run(stand_in=is_stand_in())
    nvml_facts = nvml.facts(device.uuid)
    machine = _Machine(device, engine)
    try:
        memory_bench.check_copy(machine.bench)
        memory_bench.warm_up(machine.bench, warm_up_s)
        sentinels = [_sentinels(machine)]
        clocks: dict[str, Any] = {}
        done_s = 0.0
        for i, section in enumerate(plan.sections):
            rows, notes, seen = _steady(machine, section, progress, done_s, cool_down_s)
            run.rows += rows
            run.notes += notes
            if section.operator == "memory":
                run.notes += quality.check_bandwidth(rows, gpu.memory_bytes_per_s, device.l2_bytes)
            clocks[section.name] = seen.summary()
            done_s += section.seconds
            if i == len(plan.sections) // 2:
                sentinels.append(_sentinels(machine))
        sentinels.append(_sentinels(machine))
        run.notes += quality.check_drift(sentinels)
        run.notes += quality.noise_notes(run.rows)
        run.notes += _sharing_notes(nvml_facts)
        run.conditions = _conditions(machine, nvml_facts, sentinels, clocks, run)
        progress(plan.seconds, "done")
    finally:
        machine.close()
    return run


def _steady(
    machine: _Machine, section: Section, progress: Progress, done_s: float, cool_down_s: float
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


def _measure(machine: _Machine, section: Section, step: Callable[[], None]) -> tuple[list[Row], list[str]]:
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


def _measure_gemm(machine: _Machine, section: Section, step: Callable[[], None]) -> tuple[list[Row], list[str]]:
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


def _sentinels(machine: _Machine) -> dict[str, float]:
    """Seconds of three points that are repeated at start, middle and end."""
    bench = machine.bench
    found = {"memory read": memory_bench.read_once(bench, machine.sentinel_bytes)}
    (node, *_) = memory_bench.launch_floor(bench, lambda: None, full=False)
    found["graph node"] = node.us * 1e-6
    if machine.library:
        m, n, k = 256, 4096, 4096
        with bench.scratch():
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


def _sharing_notes(facts: dict[str, Any]) -> list[str]:
    notes = []
    others = _other_processes(facts)
    if others:
        notes.append(f"{others} other process(es) use this GPU: times may be too long")
    if facts.get("mig"):
        notes.append("MIG is on: the profile describes this slice, not the whole GPU")
    limit, default = facts.get("power_limit_w"), facts.get("default_power_limit_w")
    if limit and default and limit < 0.98 * default:
        notes.append(f"the power limit is {limit:.0f} W of {default:.0f} W: the profile describes this limit")
    return notes


def _other_processes(facts: dict[str, Any]) -> int:
    """Processes beside this one. In a container NVML may list it under the host's number, but list it does."""
    listed: list[int] = facts.get("processes", [])
    return len([pid for pid in listed if pid != os.getpid()]) if os.getpid() in listed else max(0, len(listed) - 1)


def _conditions(
    machine: _Machine, facts: dict[str, Any], sentinels: list[dict[str, float]], clocks: dict[str, Any], run: Run
) -> dict[str, Any]:
    device = machine.bench.device
    reads = {
        r.bytes: round(r.bytes / r.us / 1e3, 1)
        for r in run.rows
        if r.operator == "bandwidth" and r.format == "read" and r.bytes
    }
    return {
        "measured_on": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": device.name,
        "driver": facts.get("driver", ""),
        "cuda_driver": device.driver_version,
        "nvrtc": compiler.version(),
        "cublas": machine.library.version if machine.library else "",
        "python": platform.python_version(),
        "cuda_bindings": _installed("cuda-bindings"),
        "attributes": device.attributes,
        "other_processes": _other_processes(facts),
        "nvml": {k: v for k, v in facts.items() if k not in ("driver", "processes")},
        "sm_clock_mhz_in_kernel": round(memory_bench.clock_hz(machine.bench) / 1e6),
        "read_gb_per_s_by_bytes": reads,
        "launch_us": {r.format: round(r.us, 3) for r in run.rows if r.operator == "launch"},
        "sentinels_us": [{k: round(v * 1e6, 3) for k, v in s.items()} for s in sentinels],
        "clocks": clocks,
        "registers": {n: {k: r.registers for k, r in b.kernels.items()} for n, b in machine.bench.binaries.items()},
        "stand_in": run.stand_in,
    }


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
