"""Whether a saved calibration still describes this machine: its driver and cuBLAS may have moved on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specadvisor.data_files import user_dir


def saved_conditions(path: Path) -> dict[str, Any]:
    """The conditions in a calibration's file; empty where there are none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    conditions = data.get("conditions") if isinstance(data, dict) else None
    return conditions if isinstance(conditions, dict) else {}


def outdated_note(gpu_id: str, calibration: str = "") -> str | None:
    """One sentence if the driver or cuBLAS of this machine is newer than that of the calibration; else ``None``.

    ``calibration``: its file, if it is not among the user's own profiles.
    """
    conditions = saved_conditions(Path(calibration) if calibration else user_dir() / "kernels" / f"{gpu_id}.json")
    return compare(conditions, {"driver": local_driver(), "cublas": local_cublas()}) if conditions else None


def compare(conditions: Mapping[str, Any], now: Mapping[str, str]) -> str | None:
    """The note for what is newer ``now`` than in ``conditions``; versions that either side does not know are skipped."""
    labels = {"driver": "driver", "cublas": "cuBLASLt"}
    moved = [
        f"{label} {conditions[key]} -> {now[key]}"
        for key, label in labels.items()
        if conditions.get(key) and now.get(key) and _numbers(now[key]) > _numbers(str(conditions[key]))
    ]
    if not moved:
        return None
    date = conditions.get("measured_on", "an earlier date")
    changes = ", ".join(moved)
    return f"The calibration of {date} is older than this machine's software ({changes}); specadvisor calibrate renews it."


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version))


def local_driver() -> str:
    """The NVIDIA driver's version, or an empty string."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            version = pynvml.nvmlSystemGetDriverVersion()
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # no module, no driver, no permission: the question has no answer, and no advice depends on it
        return ""
    return version.decode() if isinstance(version, bytes) else str(version)


def local_cublas() -> str:
    """The version of the cuBLASLt that a calibration would use, or an empty string."""
    from specadvisor.calibration.cublaslt import library_version

    return library_version()
