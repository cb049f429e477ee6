"""Engine sections in a process of their own.

A foreign kernel that reads where it must not leaves the CUDA context unusable, and one that crashes takes its process along.
So it costs its section and not the calibration; nor do the engines' threads, allocators and messages reach this process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from specadvisor.calibration import driver
from specadvisor.calibration.plan import Section
from specadvisor.calibration.rows import Row
from specadvisor.errors import SpecadvisorError

TIMEOUT_S = 900.0  # FlashInfer and SGLang may compile their kernels first
_POLL_S = 0.1


def measure_engine_section(
    section: Section, step: Callable[[], None], engine: str, capability: int, l2_bytes: int
) -> tuple[list[Row], list[str]]:
    """(rows, notes) of one section on the current device; a process that fails or takes too long leaves a note."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "task").write_bytes(pickle.dumps((section, engine, capability, l2_bytes, _current_device())))
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            late = _waited(process, folder / "steps", step)
        finally:
            process.kill()
            process.wait()
        result = folder / "result"
        if result.is_file():
            found: tuple[list[Row], list[str]] = pickle.loads(result.read_bytes())
            return found
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = f"not done after {TIMEOUT_S:.0f} s" if late else f"its process ended with {process.returncode}"
        return [], [f"{section.name}: not measured, {why}: {lines[-1][-200:] if lines else 'no message'}"]


def _waited(process: subprocess.Popen[bytes], steps: Path, step: Callable[[], None]) -> bool:
    """Wait for the process, passing on the steps that it notes in a file; True if it took too long."""
    done, end = 0, time.monotonic() + TIMEOUT_S
    while process.poll() is None and time.monotonic() < end:
        time.sleep(_POLL_S)
        taken = steps.stat().st_size if steps.is_file() else 0
        for _ in range(taken - done):
            step()
        done = taken
    return process.poll() is None


def _current_device() -> int:
    """The ordinal of the GPU whose context is current; 0 where there is none."""
    with contextlib.suppress(ImportError, RuntimeError, SpecadvisorError):
        return int(driver.checked(driver.bindings().cuCtxGetDevice(), "Asking for the current GPU"))
    return 0


def main() -> None:
    """The process: measure the task in the folder that is its argument, and leave rows and notes there."""
    from specadvisor.calibration.engine_measure import measure_section

    folder = Path(sys.argv[1])
    section, engine, capability, l2_bytes, ordinal = pickle.loads((folder / "task").read_bytes())
    with contextlib.suppress(ImportError):  # then the section says so itself
        import torch

        torch.cuda.set_device(ordinal)

    def step() -> None:
        with (folder / "steps").open("ab") as file:
            file.write(b".")

    found = measure_section(section, step, engine, capability, l2_bytes)
    (folder / "unfinished").write_bytes(pickle.dumps(found))
    (folder / "unfinished").rename(folder / "result")
