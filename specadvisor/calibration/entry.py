"""``calibrate``: measure this machine, fit a kernel profile, save it where ``--gpu auto`` finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specadvisor.calibration import cpu_machine, cpu_run, driver
from specadvisor.calibration.build_profile import build_profile
from specadvisor.calibration.cpu_plan import make_cpu_plan
from specadvisor.calibration.engine_plan import with_engine_sections
from specadvisor.calibration.gpu_run import run_on_gpu
from specadvisor.calibration.identify import identify, with_measured_bandwidth
from specadvisor.calibration.merge import check_target
from specadvisor.calibration.plan import Plan, make_plan
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Progress, Run
from specadvisor.calibration.save import STAND_IN, refuse_stand_in, save, target_path
from specadvisor.errors import InputError
from specadvisor.hardware import Gpu
from specadvisor.hardware.catalogue import gpu_facts
from specadvisor.hardware.kernel_profile import KernelProfile
from specadvisor.ids import resolve

if TYPE_CHECKING:
    from specadvisor.model.architecture import Architecture

DEVICES = ("cuda", "cpu")


@dataclass(frozen=True)
class Calibration:
    """What one calibration found: the fitted profile, its rows, where it was saved and what the user should know."""

    profile: KernelProfile
    rows: tuple[Row, ...]
    conditions: dict[str, Any]
    notes: tuple[str, ...]
    path: Path


def plan_for(
    gpu: str = "auto",
    device: str = "cuda",
    *,
    quick: bool = False,
    model: Architecture | None = None,
    tp: int = 1,
    engine: str = "",
    formats: Iterable[str] | None = None,
) -> Plan:
    """The plan that ``calibrate`` with these arguments follows; needs the GPU only for ``auto``."""
    if _device(device, gpu, formats) == "cpu":
        return make_cpu_plan(quick=quick, model=model, tp=tp)
    sm = gpu_facts(gpu).sm
    plan = make_plan(sm, quick=quick, model=model, tp=tp, formats=formats)
    return with_engine_sections(plan, resolve("engine", engine or "vllm"), sm, quick)


def calibrate(
    gpu: str = "auto",
    device: str = "cuda",
    *,
    quick: bool = False,
    model: Architecture | None = None,
    tp: int = 1,
    engine: str = "",
    formats: Iterable[str] | None = None,
    out: str | Path | None = None,
    ordinal: int = 0,
    progress: Progress | None = None,
    saved: Callable[[Path], None] = lambda path: None,
) -> Calibration:
    """Measure the kernels of this machine's GPU (or processor, ``device="cpu"``), fit a profile and save it.

    ``quick`` takes fewer points; ``model`` measures its own weight shapes and heads (on one of ``tp`` ranks); ``engine`` is
    whose kernels are timed where they are installed (vllm; llama_cpp on a processor); ``out`` is a .json file or folder
    instead of the user's profiles. Rows are written as CSV beside the profile; ``saved`` is called with the profile's path as
    soon as both files are there. Raises ``MissingDependency`` where something
    has to be installed first, ``CheckFailed`` or ``Unreliable`` where the measurement cannot be believed; then nothing is
    written.
    """
    report: Progress = progress or (lambda done_s, what: None)
    if _device(device, gpu, formats) == "cpu":
        return _calibrate_cpu(quick, model, tp, resolve("engine", engine or "llama_cpp"), out, report, saved)
    engine = resolve("engine", engine or "vllm")
    with driver.opened(ordinal) as opened:
        found, listed = identify(opened, gpu)
        if found.sm != opened.compute_capability:
            raise InputError(
                "gpu", gpu, f"a GPU of compute capability {opened.compute_capability}", f"This one is a {opened.name}."
            )
        path = target_path(found.id, out)
        if driver.is_stand_in():
            refuse_stand_in(path)
        check_target(path, STAND_IN if driver.is_stand_in() else found.id)
        plan = make_plan(found.sm, quick=quick, model=model, tp=tp, formats=formats)
        plan = with_engine_sections(plan, engine, found.sm, quick)
        run = run_on_gpu(opened, found, plan, engine, report)
    return _fitted(run, with_measured_bandwidth(found, run.rows), path, not listed, saved)


def _calibrate_cpu(
    quick: bool,
    model: Architecture | None,
    tp: int,
    engine: str,
    out: str | Path | None,
    progress: Progress,
    saved: Callable[[Path], None],
) -> Calibration:
    path = target_path(cpu_machine.ID, out)
    check_target(path, cpu_machine.ID)
    plan = make_cpu_plan(quick=quick, model=model, tp=tp)
    effort = cpu_machine.QUICK_EFFORT if quick else cpu_machine.EFFORT
    progress(0.0, "bandwidth and peak")
    described = cpu_machine.describe_cpu(effort)
    run = cpu_run.run_on_cpu(plan, engine, progress, effort)
    return _fitted(run, cpu_machine.with_reached_speeds(described, run.rows), path, True, saved)


def _fitted(run: Run, gpu: Gpu, path: Path, datasheet: bool, saved: Callable[[Path], None]) -> Calibration:
    profile, notes = build_profile(run, gpu)
    run.fit_notes += notes
    save(run, profile, gpu, path, datasheet, saved)
    return Calibration(profile, tuple(run.rows), run.conditions, (*run.notes, *run.fit_notes), path)


def _device(name: str, gpu: str, formats: Iterable[str] | None) -> str:
    if name not in DEVICES:
        raise InputError("device", name, " or ".join(DEVICES))
    if name == "cpu" and gpu.strip().lower() not in ("auto", cpu_machine.ID):
        raise InputError("gpu", gpu, "auto or cpu with the device cpu")
    if name == "cpu" and formats is not None:
        raise InputError("GEMM format", ", ".join(formats), "none with the device cpu", "A processor is measured in fp32.")
    return name
