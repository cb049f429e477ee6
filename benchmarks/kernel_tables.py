"""The published kernel tables in ``benchmarks/data/kernel_tables``: reading, fitting, and what is left out of the profiles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from specadvisor.calibration.fit import Fitted, fit_table
from specadvisor.calibration.fit_laws import LAWS
from specadvisor.calibration.measurements import check_measurements
from specadvisor.errors import InputError
from specadvisor.hardware import Gpu, load_gpu

DATA = Path(__file__).parent / "data" / "kernel_tables"
FILES = ("gemm", "attention", "mla", "moe", "all_reduce", "recurrent", "multi_query")
SOURCE = "AIConfigurator tables (aiconfigurator-core 0.12.0, NVIDIA, Apache-2.0), benchmarks/data/kernel_tables"
DATA_DATE = "2026-08"
FAMILIES = {
    "ampere": ("a100_sxm_80gb",),
    "hopper": ("h100_sxm", "h200_sxm"),
    "blackwell": ("b200_sxm",),
    "ada": ("l40s",),
    "blackwell_rtx": ("rtx_pro_6000_server",),
}
GPUS = tuple(gpu for members in FAMILIES.values() for gpu in members)
# A profile keeps no entry that misses by more than this on half of the unseen shapes: the family default is no worse a guess.
WORST_MEDIAN = 0.25
# A launch costs microseconds; a longer floor says that the law does not describe the kernel.
LONGEST_FLOOR_S = 6e-5


@dataclass(frozen=True)
class Table:
    """One measured table and its fit."""

    gpu: str
    operator: str
    format: str
    engine: str
    kernel: str
    fitted: Fitted

    @property
    def name(self) -> str:
        return f"{self.gpu} {self.operator} {self.format} {self.engine} {self.kernel}"

    def quantiles(self, keep: np.ndarray | None = None) -> tuple[float, float]:
        """(median, p90) error on unseen shapes, of all used rows or of ``keep``."""
        errors = self.fitted.errors()
        return quantiles(errors if keep is None else errors[keep])

    def errors_with(self, parameters: dict[str, float]) -> np.ndarray:
        """Absolute relative error of every used row under other parameters."""
        law, gpu = LAWS[self.operator], load_gpu(self.gpu)
        predicted = law.law(parameters, law.terms(gpu, self.fitted.used, self.format))
        return np.abs(predicted / (self.fitted.used["us"].to_numpy(dtype=np.float64) * 1e-6) - 1.0)


def quantiles(errors: np.ndarray) -> tuple[float, float]:
    errors = errors[~np.isnan(errors)]
    if not errors.size:
        return float("nan"), float("nan")
    return float(np.quantile(errors, 0.5)), float(np.quantile(errors, 0.9))


def unsupported(gpu: str, operator: str, format: str, engine: str) -> str:
    """Why a table does not become a profile entry although it has rows, or an empty string."""
    if operator == "gemm" and format == "w4a16":
        return "only TensorRT-LLM 1.0 on A100 has rows, another kernel than today's"
    if operator == "gemm" and format == "nvfp4" and engine != "sglang":
        return "too few cold rows"
    return ""


def not_shipped(table: Table) -> str:
    """Why the fit of a table does not become a profile entry, or an empty string."""
    if reason := unsupported(table.gpu, table.operator, table.format, table.engine):
        return reason
    median = table.quantiles()[0]
    if median > WORST_MEDIAN:
        return f"median error {median:.0%} on unseen shapes"
    floor = table.fitted.parameters["t0_s"]
    if table.operator in ("attention", "mla") and floor > LONGEST_FLOOR_S:
        return f"fitted floor {floor * 1e6:.0f} us: another kind of kernel"
    return ""


def far_slower(table: Table) -> bool:
    """Slower than four times the memory roofline even on its best fifth of rows: a kernel that no other engine runs."""
    if table.operator not in ("attention", "mla", "moe"):
        return False
    used = table.fitted.used
    roofline = LAWS[table.operator].footprint(used, table.format) / load_gpu(table.gpu).memory_bytes_per_s
    return bool(np.quantile(used["us"].to_numpy(dtype=np.float64) * 1e-6 / roofline, 0.2) > 4.0)


def read_tables(name: str) -> pd.DataFrame:
    return check_measurements(pd.read_parquet(DATA / f"{name}.parquet"), name)


def fit_tables(name: str) -> list[Table]:
    """All tables of one file, most rows first; all recurrent kernels of an engine also together, as its default."""
    frame = read_tables(name)
    groups = [(*key, rows) for key, rows in frame.groupby(["gpu", "operator", "format", "engine", "kernel"])]
    if name == "recurrent":
        groups += [(*key, "", rows) for key, rows in frame.groupby(["gpu", "operator", "format", "engine"])]
    tables = []
    for gpu, operator, format, engine, kernel, rows in groups:
        try:
            tables.append(Table(gpu, operator, format, engine, kernel, fit_table(load_gpu(gpu), operator, format, rows)))
        except InputError as error:
            print(f"  left out {gpu} {operator} {format} {engine} {kernel}: {error.value}")
    return sorted(tables, key=lambda t: (bool(t.kernel) and name == "recurrent", -len(t.fitted.used)))


def first_tables(tables: list[Table]) -> dict[tuple[str, str, str, str], Table]:
    """The kernel with most rows of every (GPU, operator, format, engine): what ``find`` returns."""
    first: dict[tuple[str, str, str, str], Table] = {}
    for table in tables:
        first.setdefault((table.gpu, table.operator, table.format, table.engine), table)
    return first


def family_of(gpu: str | Gpu) -> str:
    return next(name for name, members in FAMILIES.items() if gpu in members)
