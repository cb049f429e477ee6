"""What nobody has published: GQA verify attention with several query tokens on a long cache, on one H200.

    PYTHONPATH=. python benchmarks/gpu/h200.py --dry-run    # the plan and its estimated time; needs no GPU, not even installing
    python benchmarks/gpu/h200.py --out "$OUT"              # under four minutes on an H200
    python benchmarks/gpu/h200.py --out "$OUT" --small      # a corner of every section

Needs this package and its dependencies, NVRTC and cuBLASLt (both come with torch); torch itself for the comparison. Correctness
first: a kernel that does not match float64 ends the run. Then tasks in order of worth (``h200_plan``), ``verify.csv`` rewritten
after each, until ``--budget`` seconds since the start are used: the last tasks are dropped. ``verify.json`` is the profile
fitted from the rows, with the machine's conditions; ``report.md`` says where the time steps with the packed rows G x query
tokens, beside the tiles that the kernel has (guidelines 2 and 3). Interrupted, it writes what it has.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from h200_plan import Task, checks_s, make_tasks, plan_text, within
from h200_report import report_text

from specadvisor.calibration import driver, memory_bench, nvml, quality, save
from specadvisor.calibration.attention_bench import measure_attention
from specadvisor.calibration.attention_kernel import VARIANTS
from specadvisor.calibration.build_profile import build_profile
from specadvisor.calibration.conditions import conditions, sharing_notes
from specadvisor.calibration.cublaslt import CublasLtError
from specadvisor.calibration.engine_attention import KERNELS, check_kernel
from specadvisor.calibration.gemm_bench import check_product, measure_products
from specadvisor.calibration.gemm_formats import RECIPES
from specadvisor.calibration.gpu_run import Machine, sentinels
from specadvisor.calibration.identify import identify
from specadvisor.calibration.plan import AttentionPoint
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.run import Run
from specadvisor.calibration.timing import Effort, rotation
from specadvisor.calibration.torch_timing import measure_torch
from specadvisor.errors import SpecadvisorError
from specadvisor.hardware import Gpu, load_gpu

STARTED = time.perf_counter()
CLOSING_S = 20.0  # fit and report, with some to spare
OUT_OF_MEMORY = 2
CHECKED = [v for v in VARIANTS if v.head_dim == 128]


class Session:
    """The open device, what was measured so far, and the time left."""

    def __init__(self, device: driver.Device, gpu: Gpu, out: Path, budget_s: float) -> None:
        self.device, self.gpu, self.out = device, gpu, out
        self.end = STARTED + budget_s - CLOSING_S
        self.facts = nvml.facts(device.uuid)
        self.run = Run(stand_in=driver.is_stand_in(), notes=sharing_notes(self.facts))
        self.machine = Machine(device, "vllm")
        self.clocks: dict[str, Any] = {}
        self.sentinels: list[dict[str, float]] = []
        self.without: set[str] = set()
        self.torch: Any = None
        self.dropped: dict[str, int] = defaultdict(int)
        self.pace = 1.0

    def check(self) -> None:
        """Every kernel against float64; raises ``CheckFailed``. A format that the library lacks is left out with a note."""
        bench, library = self.machine.bench, self.machine.library
        memory_bench.check_copy(bench)
        if library is None:
            self.run.notes.append(f"GEMM: not measured, {self.machine.library_missing}")
        for recipe in RECIPES:
            try:
                if library is not None:
                    check_product(bench, library, recipe)
            except CublasLtError as error:
                self.without.add(recipe.format)
                if recipe.capabilities[0] <= self.device.compute_capability <= recipe.capabilities[1]:
                    self.run.notes.append(f"GEMM {recipe.format}: not measured, {error}")
        self.machine.attention.load_all(CHECKED)
        self.sentinels.append(sentinels(self.machine))
        print(f"correctness: every kernel matches float64 ({self.seconds():.0f} s)", flush=True)

    def seconds(self) -> float:
        """Since the start of the program."""
        return time.perf_counter() - STARTED

    def measure_all(self, tasks: list[Task]) -> None:
        """Tasks in their order while the time lasts; a task that would not end in time is dropped, a shorter one may follow."""
        with nvml.sampled(self.device.uuid) as seen:
            try:
                for task in tasks:
                    if time.perf_counter() + task.seconds * self.pace > self.end:
                        self.dropped[task.section] += len(task.points)
                    else:
                        self._one(task, seen)
            finally:
                self.clocks = seen.summary()

    def _one(self, task: Task, seen: nvml.Clocks) -> None:
        seen.reasons = 0
        start = time.perf_counter()
        rows, notes = self.measure(task)
        taken = time.perf_counter() - start
        self.pace += 0.1 * (min(10.0, taken / task.seconds) - self.pace)
        if seen.spoiled:
            notes.append(f"{task.section}: {len(rows)} rows measured while throttled ({', '.join(seen.spoiled)})")
        self.run.rows += rows
        self.run.notes += notes
        save.write_together({self.out / "verify.csv": save.rows_text(self.run)})
        print(f"{self.seconds():6.1f} s  {task.section}: {len(rows)} rows in {taken:.1f} s", flush=True)

    def measure(self, task: Task) -> tuple[list[Row], list[str]]:
        """(rows, notes) of one task; memory that is not there becomes a note, a broken context ends the run."""
        bench, library = self.machine.bench, self.machine.library
        try:
            if task.kind == "memory":
                return memory_bench.bandwidth(bench, task.points, _no_step), []
            if task.kind == "launch":
                return memory_bench.launch_floor(bench, _no_step), []
            if task.kind == "attention":
                return measure_attention(bench, self.machine.attention, task.points, _no_step)
            if task.kind == "torch":
                return self.beside(task)
            name = task.points[0].format
            if library is None or name in self.without:
                return [], []
            recipe = next(r for r in RECIPES if r.format == name)
            return measure_products(bench, library, recipe, task.points, _no_step, "vllm")
        except driver.CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            return [], [f"{task.section}: {error}"]
        except CublasLtError as error:
            return [], [f"{task.section}: {error}"]

    def beside(self, task: Task) -> tuple[list[Row], list[str]]:
        """torch's attention, the only other kernel that is sure to be there; whatever torch raises becomes a note."""
        kernel = next(k for k in KERNELS if k.module == "torch")
        if "torch" in self.without:
            return [], []
        rows: list[Row] = []
        try:
            if self.torch is None:
                import torch

                check_kernel(torch, kernel, 128)
                self.torch = torch
            points: tuple[AttentionPoint, ...] = task.points
            for p in points:
                sets = rotation(p.cache_bytes, self.device.l2_bytes)
                timing = measure_torch(self.torch, kernel.calls(self.torch, p, sets), sets, Effort(budget_s=0.06))
                shape = {"batch": p.batch, "query_tokens": p.query_tokens, "context": p.context, "head_dim": p.head_dim}
                facts = {"engine": "transformers", "kernel": kernel.name, "engine_version": f"torch {self.torch.__version__}"}
                heads = {"heads": p.kv_heads * p.group, "kv_heads": p.kv_heads}
                rows.append(
                    row("attention", p.kv_format, timing, auto=p.query_tokens == 1, sets=sets, **facts, **shape, **heads)
                )
            self.torch.cuda.empty_cache()
        except Exception as error:
            self.without.add("torch")
            return rows, [f"{task.section}: not measured further, {type(error).__name__}: {' '.join(str(error).split())[:200]}"]
        return rows, []

    def close(self) -> None:
        """Conditions and notes of the whole run, while the device is still open."""
        self.run.notes += [f"{section}: {n} points dropped, the time was used up" for section, n in self.dropped.items()]
        self.sentinels.append(sentinels(self.machine))
        for check in (
            lambda: quality.check_drift(self.sentinels),
            lambda: quality.check_bandwidth(self.run.rows, self.gpu.memory_bytes_per_s, self.device.l2_bytes),
        ):
            try:
                self.run.notes += check()
            except SpecadvisorError as error:  # the calibration would write nothing; here the rows are kept, with the doubt
                self.run.notes.append(f"UNRELIABLE: {error}")
        self.run.notes += quality.noise_notes(self.run.rows)
        bench, library = self.machine.bench, self.machine.library
        self.run.conditions = conditions(bench, library, self.facts, self.sentinels, {"all": self.clocks}, self.run)
        self.machine.close()


def _no_step() -> None:
    """No progress inside a task."""


def write(run: Run, gpu: Gpu, out: Path) -> None:
    """Rows, fitted profile and report; without a fit the rows and the report stand alone."""
    entries: list[str] = []
    try:
        profile, notes = build_profile(run, gpu)
        run.notes += notes
        save.save(run, profile, gpu, out / "verify.json")
        entries = [
            f"{e.operator} {e.format} {e.kernel}: median {e.median_error:.1%}, p90 {e.p90_error:.1%}" for e in profile.entries
        ]
    except Exception as error:  # whatever a fit stumbles over: the measurements are what cannot be had again
        run.notes.append(f"no profile: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    text = report_text(run, entries)
    save.write_together({out / "report.md": text, out / "verify.csv": save.rows_text(run)})
    print(text)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("h200-out"))
    parser.add_argument("--budget", type=float, default=210.0, help="seconds since the start, fit and report included")
    parser.add_argument("--gpu", default="auto", help="id in the catalogue; auto is the local GPU (an H200 for --dry-run)")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, measure nothing")
    options = parser.parse_args(arguments)
    before_s = checks_s(len(CHECKED))
    if options.dry_run:
        gpu = load_gpu("h200_sxm" if options.gpu == "auto" else options.gpu)
        tasks = make_tasks(gpu, options.small)
        _, dropped = within(tasks, options.budget - CLOSING_S - before_s)
        print(plan_text(tasks, dropped, before_s, CLOSING_S, options.budget))
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    with driver.opened() as device:
        gpu, _ = identify(device, options.gpu)
        session = Session(device, gpu, options.out, options.budget)
        session.check()
        broken = ""
        try:
            session.measure_all(make_tasks(gpu, options.small))
        except KeyboardInterrupt:
            session.run.notes.append("interrupted: later tasks are missing")
        except driver.CudaError as error:  # after a fault inside a kernel nothing on this device works any more
            broken = str(error)
            session.run.notes.append(f"stopped: {error}")
        if not broken:
            session.close()
    write(session.run, gpu, options.out)
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SpecadvisorError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        sys.exit("interrupted before the first measurement")
