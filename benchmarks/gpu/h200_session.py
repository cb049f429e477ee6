"""The run behind ``h200.py``: the open device, what was measured so far, and the time left."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from h200_plan import Task

from specadvisor.calibration import driver, memory_bench, nvml, quality, save
from specadvisor.calibration.attention_bench import measure_attention
from specadvisor.calibration.attention_kernel import VARIANTS
from specadvisor.calibration.conditions import conditions, sharing_notes
from specadvisor.calibration.cublaslt import CublasLtError
from specadvisor.calibration.engine_attention import KERNELS, check_kernel
from specadvisor.calibration.gemm_bench import check_product, measure_products
from specadvisor.calibration.gemm_formats import RECIPES
from specadvisor.calibration.gpu_run import COOL_DOWN_S, Machine, sentinels
from specadvisor.calibration.identify import check_name
from specadvisor.calibration.plan import AttentionPoint
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.run import Run
from specadvisor.calibration.timing import Effort, rotation
from specadvisor.calibration.torch_timing import measure_torch
from specadvisor.errors import SpecadvisorError
from specadvisor.hardware import Gpu

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
        self.run = Run(stand_in=driver.is_stand_in(), notes=[*check_name(device.name, gpu), *sharing_notes(self.facts)])
        self.machine = Machine(device, "vllm")
        self.clocks: dict[str, Any] = {}
        self.sentinels: list[dict[str, float]] = []
        self.without: set[str] = set()
        self.torch: Any = None
        self.dropped: dict[str, int] = defaultdict(int)
        self.pace = 1.0
        self.cool_down_s = COOL_DOWN_S

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
        self.describe()  # already now: a fault inside a kernel leaves no device to ask
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
        """Measure, a second time after a pause if the clocks were throttled; rows that stay so are kept out of the fit."""
        for attempt in range(2):
            seen.reasons = 0
            start = time.perf_counter()
            rows, notes = self.measure(task)
            taken = time.perf_counter() - start
            if not seen.spoiled or attempt or start + 2 * taken + self.cool_down_s > self.end:
                break
            print(f"{self.seconds():6.1f} s  {task.section}: throttled, cooling down", flush=True)
            time.sleep(self.cool_down_s)
        self.pace += 0.1 * (min(10.0, taken / task.seconds) - self.pace)
        if seen.spoiled:
            why = ", ".join(seen.spoiled)
            notes.append(f"{task.section}: {len(rows)} rows measured while throttled ({why}), not fitted")
            rows = [replace(r, auto=False, note=f"throttled {r.note}".strip()) for r in rows]
        self.run.rows += rows
        self.run.notes += notes
        save.write_together({self.out / "verify.csv": save.rows_text(self.run, self.gpu)})
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

    def describe(self) -> None:
        """Note the conditions of what was measured so far; the GPU must be free."""
        bench, library = self.machine.bench, self.machine.library
        self.run.conditions = conditions(bench, library, self.facts, self.sentinels, {"all": self.clocks}, self.run)

    def close(self) -> str:
        """Conditions and notes of the whole run, while the device is still open; returns what went wrong, if anything did."""
        self.run.notes += [f"{section}: {n} points dropped, the time was used up" for section, n in self.dropped.items()]
        broken = ""
        try:
            self.sentinels.append(sentinels(self.machine))
            self.describe()
            self.machine.close()
        except SpecadvisorError as error:
            broken = str(error)
        for check in (
            lambda: quality.check_drift(self.sentinels),
            lambda: quality.check_bandwidth(self.run.rows, self.gpu.memory_bytes_per_s, self.device.l2_bytes),
        ):
            try:
                self.run.notes += check()
            except SpecadvisorError as error:  # the calibration would write nothing; here the rows are kept, with the doubt
                self.run.notes.append(f"UNRELIABLE: {error}")
        self.run.notes += quality.noise_notes(self.run.rows)
        return broken


def _no_step() -> None:
    """No progress inside a task."""
