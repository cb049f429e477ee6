"""Fit again, without a GPU: from a table of measurements to the profile, through the same fit, gate and saving."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from specadvisor.calibration.build_profile import fitted_profile
from specadvisor.calibration.measurements import Measurements, read_table
from specadvisor.calibration.merge import check_target
from specadvisor.calibration.rows import COLUMNS
from specadvisor.calibration.run import Run
from specadvisor.calibration.save import gpu_table, save, target_path
from specadvisor.calibration.table_head import TITLE, Head, head_text
from specadvisor.errors import InputError
from specadvisor.hardware import datasheet, list_gpus
from specadvisor.hardware.catalogue import gpu_facts
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.gpu_file import gpu_from_table
from specadvisor.hardware.kernel_profile import KernelProfile

AUTO = "auto"


@dataclass(frozen=True)
class Refit:
    """The fitted profile, its file, how many rows the table has, and what the user should know."""

    profile: KernelProfile
    path: Path
    rows: int
    notes: tuple[str, ...]


def refit(
    table: str | Path,
    gpu: str = AUTO,
    out: str | Path | None = None,
    *,
    write: bool = True,
    saved: Callable[[Path], None] = lambda path: None,
) -> Refit:
    """Fit a profile to ``table`` and save it like a calibration; with ``write`` False only fit.

    The table's head says which GPU it is from; ``gpu`` names it for a table without head, else it must agree. Raises
    ``InputError`` for what cannot be used, ``Unreliable`` where the times or their fit cannot be believed.
    """
    measured = read_table(table)
    found, notes = _gpu_of(measured.head, gpu, Path(table).name)
    path = target_path(found.id, out)
    check_target(path, found.id)
    profile, fit_notes = fitted_profile(measured.rows, found, measured.head.conditions, Path(table).name)
    run = Run(conditions=measured.head.conditions, notes=measured.head.notes, fit_notes=[*notes, *fit_notes])
    if write:
        listed = found.id in list_gpus()
        save(run, profile, found, path, not listed, saved, _csv(measured, found, listed, Path(table), path))
    return Refit(profile, path, len(measured.rows), (*run.notes, *run.fit_notes))


def _gpu_of(head: Head, named: str, where: str) -> tuple[Gpu, list[str]]:
    """(the GPU that the table is from, notes)."""
    if not head.gpu:
        found = gpu_facts(named)
        return found, [f"{where} does not name its GPU: taken as rows of {found.id}"]
    found = gpu_from_table(head.datasheet, where) if head.datasheet else datasheet(head.gpu)
    if named.strip().lower() not in (AUTO, found.id):
        asked = gpu_facts(named)
        if asked.id != found.id:
            raise InputError("gpu", asked.id, found.id, f"{where} holds rows of {found.id}.")
    return replace(found, kernels=None), []


def _csv(measured: Measurements, gpu: Gpu, listed: bool, table: Path, path: Path) -> str:
    """The table as CSV with a head that names its GPU; a table that lies there already stays as it is."""
    text = measured.csv or measured.rows.to_csv(index=False, columns=_in_order(measured))
    same = path.with_suffix(".csv").exists() and table.exists() and path.with_suffix(".csv").samefile(table)
    if text.startswith(TITLE) or same:
        return text
    return head_text(Head(gpu.id, {} if listed else gpu_table(gpu))) + text


def _in_order(measured: Measurements) -> list[str]:
    """Columns in the order of our own tables, then what the table has beyond them."""
    present = [str(name) for name in measured.rows.columns]
    return [*(name for name in COLUMNS if name in present), *(name for name in present if name not in COLUMNS)]
