"""Where a calibration ends: the profile and, beside it, the CSV of its rows; both or neither, and never from a stand-in."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from specadvisor.calibration.rows import to_csv
from specadvisor.calibration.run import Run
from specadvisor.data_files import user_dir
from specadvisor.errors import InputError
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import KernelProfile, profile_to_json

STAND_IN = "stand_in"


def target_path(gpu_id: str, out: str | Path | None) -> Path:
    """The profile's path: ``out`` (a .json file or a folder), else where ``--gpu auto`` finds it.

    Raises ``InputError`` where it cannot be written, before anybody waits for a measurement.
    """
    if out is None:
        path = user_dir() / "kernels" / f"{gpu_id}.json"
    else:
        given = Path(out).expanduser()
        path = given if given.suffix.lower() == ".json" else given / f"{gpu_id}.json"
    if path.is_dir():
        raise InputError("out", str(path), "a .json file or a folder")
    folder = path.parent
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError("out", str(path), "a place you may write to", f"{existing} is not writable.")
    return path


def refuse_stand_in(path: Path) -> None:
    """Raise ``InputError`` if ``path`` lies in the user's profile folder: invented times must never be used for advice."""
    if path.resolve().is_relative_to(user_dir().resolve()):
        raise InputError(
            "CUDA driver", "a test's stand-in", "NVIDIA's driver", "Its times are invented and are not saved as a profile."
        )


def save(run: Run, profile: KernelProfile, gpu: Gpu, path: Path, datasheet: bool = False) -> Path:
    """Write profile and CSV; returns the profile's path. ``datasheet``: with the GPU's facts, if it is not in the catalogue."""
    if run.stand_in:
        refuse_stand_in(path)
        profile = replace(profile, gpu=STAND_IN, source="stand-in")
    texts = {path.with_suffix(".csv"): rows_text(run), path: profile_text(run, profile, gpu if datasheet else None)}
    write_together(texts)
    return path


def rows_text(run: Run) -> str:
    """The CSV of a run. No fit knows the operators of a stand-in's rows: they cannot come back through a table either."""
    if run.stand_in:
        return to_csv(replace(r, operator=f"{STAND_IN}_{r.operator}") for r in run.rows)
    return to_csv(run.rows)


def profile_text(run: Run, profile: KernelProfile, facts_of: Gpu | None = None) -> str:
    """The profile's JSON with the measurement's conditions and, where given, the GPU's own facts."""
    text = profile_to_json(profile)
    head: dict[str, Any] = {k: v for k, v in json.loads(text).items() if k != "entries"}
    head["conditions"] = {**run.conditions, "notes": run.notes}
    if facts_of is not None:
        head["datasheet"] = gpu_table(facts_of)
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


def write_together(texts: dict[Path, str]) -> None:
    """Write every file whole or leave all as they were: first all the partial files, then the renames, in order."""
    partial = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial[path].write_text(text, encoding="utf-8")
        for path, temporary in partial.items():
            temporary.replace(path)
    finally:
        for temporary in partial.values():
            temporary.unlink(missing_ok=True)
