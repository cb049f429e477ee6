"""Where a calibration ends: the profile and, beside it, the CSV of its rows; both or neither, and never from a stand-in."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specadvisor.calibration.merge import check_target, merged, with_lines
from specadvisor.calibration.pair import write_together
from specadvisor.calibration.rows import to_csv
from specadvisor.calibration.run import Run
from specadvisor.calibration.table_head import Head, head_text
from specadvisor.data_files import user_dir
from specadvisor.errors import InputError, SpecadvisorError
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import KernelProfile, profile_to_json

__all__ = ["NotSaved", "put", "refuse_stand_in", "save", "target_path", "write_together"]
STAND_IN = "stand_in"


class NotSaved(SpecadvisorError):
    """The files of a calibration could not be written."""


def target_path(gpu_id: str, out: str | Path | None) -> Path:
    """The profile's path: ``out`` (a .json file or a folder), else where ``--gpu auto`` finds it.

    Raises ``InputError`` where it cannot be written or holds something else, before anybody waits for a measurement.
    """
    file = re.sub(r"[^a-z0-9]+", "_", gpu_id.lower()) + ".json"
    if out is None:
        path = user_dir() / "kernels" / file
    else:
        given = Path(out).expanduser()
        path = given if given.suffix.lower() == ".json" else given / file
    if path.is_dir():
        raise InputError("out", str(path), "a .json file or a folder")
    folder = path.parent
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        hint = f"{existing} is not writable."
        raise InputError("out", str(path), "a place you may write to", hint) from error
    return path


def refuse_stand_in(path: Path) -> None:
    """Raise ``InputError`` if ``path`` lies in the user's profile folder: invented times must never be used for advice."""
    if path.resolve().is_relative_to(user_dir().resolve()):
        raise InputError(
            "CUDA driver", "a test's stand-in", "NVIDIA's driver", "Its times are invented and are not saved as a profile."
        )


def save(
    run: Run,
    profile: KernelProfile,
    gpu: Gpu,
    path: Path,
    datasheet: bool = False,
    saved: Callable[[Path], None] = lambda path: None,
    table: str = "",
) -> Path:
    """Write profile and table, and what an older calibration at ``path`` has beyond them; returns the profile's path.

    ``datasheet``: with the GPU's facts, if it is not in the catalogue. ``table``: the CSV's text where the rows come from
    one. ``saved`` is called as soon as both files are in place. What was kept or replaced is noted in ``run``.
    Raises ``NotSaved`` where the files cannot be written or others would be overwritten.
    """
    if run.stand_in:
        refuse_stand_in(path)
        profile = replace(profile, gpu=STAND_IN, source="stand-in")
    conditions = {**run.conditions, "notes": [*run.notes, *run.fit_notes]}
    facts = gpu_table(gpu) if datasheet else {}
    run.fit_notes += put(profile, conditions, facts, table or rows_text(run, gpu, datasheet), path, saved)
    return path


def put(
    profile: KernelProfile,
    conditions: Mapping[str, Any],
    datasheet: Mapping[str, Any],
    rows: str,
    path: Path,
    saved: Callable[[Path], None],
) -> tuple[str, ...]:
    """Write the two files of a calibration, merged with those at ``path``; returns the notes on that. Raises ``NotSaved``."""
    try:
        check_target(path, profile.gpu)
    except InputError as error:
        raise NotSaved(_kept(str(error), path, rows)) from error
    whole = merged(path, profile, conditions)
    conditions = {**conditions, "notes": [*conditions.get("notes", ()), *whole.notes]}
    rows = with_lines(rows, whole.lines)
    try:
        texts = {path.with_suffix(".csv"): rows, path: profile_text(whole.profile, conditions, datasheet)}
        write_together(texts, lambda: saved(path))
    except OSError as error:
        why = f"{path} could not be written ({error.strerror or error}); what was there stays as it was."
        raise NotSaved(_kept(why, path, rows)) from error
    return whole.notes


def _kept(why: str, path: Path, rows: str) -> str:
    """The message ``why`` nothing was saved, after leaving the rows, which the fit can be redone from, in a temporary file."""
    name = Path(tempfile.gettempdir()) / f"specadvisor-{path.stem}-{os.getpid()}.csv"
    try:
        write_together({name: rows})
    except OSError:
        return f"{why} The measurements are lost: there was no room for them at {name} either."
    return f"{why} The measurements are in {name}: specadvisor calibrate --from-measurements {name} fits and saves them."


def rows_text(run: Run, gpu: Gpu | None = None, datasheet: bool = False) -> str:
    """The CSV of a run, with a head where its ``gpu`` is given.

    No fit knows the operators of a stand-in's rows: they cannot come back through a table either.
    """
    if run.stand_in:
        return to_csv(replace(r, operator=f"{STAND_IN}_{r.operator}") for r in run.rows)
    head = head_text(head_of(run, gpu, datasheet)) if gpu else ""
    return head + to_csv(run.rows)


def head_of(run: Run, gpu: Gpu, datasheet: bool) -> Head:
    """What a table says of its rows."""
    return Head(gpu.id, gpu_table(gpu) if datasheet else {}, run.conditions, list(run.notes))


def profile_text(profile: KernelProfile, conditions: Mapping[str, Any], datasheet: Mapping[str, Any]) -> str:
    """The profile's JSON with the measurement's conditions and, where given, the GPU's own facts."""
    text = profile_to_json(profile)
    head: dict[str, Any] = {k: v for k, v in json.loads(text).items() if k != "entries"}
    head["conditions"] = conditions
    if datasheet:
        head["datasheet"] = datasheet
    return json.dumps(head, indent=2, default=str)[:-2] + ",\n  " + text[text.index('"entries"') :]


def gpu_table(gpu: Gpu) -> dict[str, Any]:
    """The table of a GPU file that reads back as ``gpu``."""
    return {
        "id": gpu.id,
        "family": gpu.family,
        "sm": gpu.sm,
        "sm_count": gpu.sm_count,
        "l2_mib": round(gpu.l2_bytes / 2**20, 2),
        "boost_mhz": round(gpu.boost_hz / 1e6),
        "tdp_w": gpu.tdp_w,
        "nvml_names": [gpu.name],
        "memory": {"gb_per_s": round(gpu.memory_bytes_per_s / 1e9, 2), "usable_gib": round(gpu.memory_bytes / 2**30, 2)},
        "peak_tflops": {name: round(flops / 1e12, 4) for name, flops in gpu.peaks.items()},
        "links": {"pcie_gb_per_s": round(gpu.pcie_bytes_per_s / 1e9, 1), "gpus_per_node": gpu.gpus_per_node},
        "provenance": {"confidence": gpu.confidence, "source": gpu.source},
    }
