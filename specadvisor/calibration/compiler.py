"""CUDA text to CUBIN through NVRTC; needs neither a driver nor CUDA headers.

Always a CUBIN for the real architecture, never PTX: a driver loads CUBIN of its own CUDA major version whatever the
minor, but refuses PTX that a newer toolkit wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specadvisor.calibration import driver
from specadvisor.calibration.dependencies import extra_for_driver, missing_nvrtc
from specadvisor.errors import InputError, SpecadvisorError

SOURCES = Path(__file__).parent / "cuda"
HEADER = "primitives.cuh"
_RESOURCES = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.S,
)


class CompileError(SpecadvisorError):
    """NVRTC refused the kernel text: a defect of this package or an unsupported architecture, never of the user's input."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas reports for one kernel."""

    registers: int
    stack_bytes: int
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class Binary:
    """A loadable image and the resources of each kernel in it."""

    cubin: bytes
    kernels: Mapping[str, Resources]


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise missing_nvrtc(_cuda_of_driver()) from error
    return nvrtc


def _cuda_of_driver() -> int:
    """The CUDA version of the driver, as ``cuDriverGetVersion`` counts (13000); 0 where none answers."""
    try:
        return int(driver.checked(driver.bindings().cuDriverGetVersion(), "Reading the driver's version"))
    except (ImportError, RuntimeError, SpecadvisorError):
        return 0


def version() -> str:
    """``"13.5"``: the version of NVRTC found; raises ``MissingDependency`` where there is none."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


def require_loadable(capability: int, cuda_driver_version: int) -> None:
    """Raise ``InputError`` where this NVRTC cannot build what the driver loads for such a GPU."""
    found = version()
    if 0 < cuda_driver_version // 1000 < int(found.partition(".")[0]):
        wanted = f"{cuda_driver_version // 1000}.{cuda_driver_version % 1000 // 10}"
        hint = f"Update the driver, or: {extra_for_driver(cuda_driver_version)} and pip uninstall nvidia-cuda-nvrtc."
        raise InputError("NVRTC", found, f"one for the CUDA {wanted} of this driver", hint)
    known = _nvrtc().nvrtcGetSupportedArchs()[1]
    if capability not in known:
        update = f"Update it: {extra_for_driver(cuda_driver_version)}."
        raise InputError("NVRTC", found, f"one that knows sm_{capability}", update)


def _log(nvrtc: Any, program: Any) -> str:
    size = nvrtc.nvrtcGetProgramLogSize(program)[1]
    buffer = bytes(size + 1)  # never of length 1: Python shares such objects, and this one is written to
    nvrtc.nvrtcGetProgramLog(program, buffer)
    return buffer.decode(errors="replace").rstrip("\0 \n")


def compile_cubin(source: str, architecture: str, defines: Mapping[str, object] | None = None) -> Binary:
    """Compile one file of ``cuda/`` for ``architecture`` (``"sm_90"``) with ``-D`` definitions.

    Raises ``MissingDependency`` without NVRTC and ``CompileError`` with the compiler's log.
    """
    nvrtc = _nvrtc()
    text, header = (SOURCES / source).read_bytes(), (SOURCES / HEADER).read_bytes()
    error, program = nvrtc.nvrtcCreateProgram(text, source.encode(), 1, [header], [HEADER.encode()])
    if int(error):
        raise CompileError(f"NVRTC could not create a program for {source}: {error}")
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "--ptxas-options=-v", "--extra-device-vectorization"]
    options += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _log(nvrtc, program)
        if int(error):
            raise CompileError(f"{source} for {architecture}: {log or error}")
        cubin = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
        nvrtc.nvrtcGetCUBIN(program, cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    found = {m[0]: Resources(int(m[4]), int(m[1]), int(m[2]) + int(m[3])) for m in _RESOURCES.findall(log)}
    return Binary(cubin, found)
