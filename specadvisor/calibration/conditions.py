"""Under which conditions a run was measured: what stands beside its rows, and what the user should know about the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specadvisor.calibration import compiler, memory_bench
from specadvisor.calibration.cublaslt import Library
from specadvisor.calibration.operands import Bench
from specadvisor.calibration.run import Run


def sharing_notes(facts: Mapping[str, Any]) -> list[str]:
    """Notes on other processes, MIG and a lowered power limit, from the facts of NVML."""
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


def _other_processes(facts: Mapping[str, Any]) -> int:
    """Processes beside this one. In a container NVML may list it under the host's number, but list it does."""
    listed: list[int] = facts.get("processes", [])
    return len([pid for pid in listed if pid != os.getpid()]) if os.getpid() in listed else max(0, len(listed) - 1)


def conditions(
    bench: Bench,
    library: Library | None,
    facts: Mapping[str, Any],
    sentinels: Sequence[Mapping[str, float]],
    clocks: Mapping[str, Any],
    run: Run,
) -> dict[str, Any]:
    """Versions, device attributes, NVML's facts, clocks and sentinels of ``run``, for its profile. The GPU must be free."""
    device = bench.device
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
        "cublas": library.version if library else "",
        "python": platform.python_version(),
        "cuda_bindings": _installed("cuda-bindings"),
        "attributes": device.attributes,
        "other_processes": _other_processes(facts),
        "nvml": {k: v for k, v in facts.items() if k not in ("driver", "processes")},
        "sm_clock_mhz_in_kernel": round(memory_bench.clock_hz(bench) / 1e6),
        "read_gb_per_s_by_bytes": reads,
        "launch_us": {r.format: round(r.us, 3) for r in run.rows if r.operator == "launch"},
        "sentinels_us": [{k: round(v * 1e6, 3) for k, v in s.items()} for s in sentinels],
        "clocks": clocks,
        "registers": {n: {k: r.registers for k, r in b.kernels.items()} for n, b in bench.binaries.items()},
        "stand_in": run.stand_in,
    }


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
