"""The stand-in driver, cuBLASLt and NVML, compiled once per session, and a way to run code against them.

The libraries are found through LD_LIBRARY_PATH, which a process reads at its start: every run is a process of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cuda_emulation")]

import emulated_kernels  # noqa: E402
from stand_in_process import StandIn  # noqa: E402

from specadvisor.calibration import compiler  # noqa: E402
from specadvisor.calibration.attention_kernel import VARIANTS  # noqa: E402
from specadvisor.errors import MissingDependency  # noqa: E402

SOURCES = Path(__file__).parent / "stand_in"
LIBRARIES = {
    "libcuda.so.1": ("cuda.c", ["-Wl,-soname,libcuda.so.1", "-ldl", "-lm"]),
    "libcublasLt_stand_in.so": ("cublaslt.c", ["-O2", "-lm", "-ldl"]),
    "libnvidia-ml.so.1": ("nvml.c", []),
}


def _missing() -> str:
    if shutil.which("gcc") is None or emulated_kernels.GXX is None:
        return "gcc and g++ are not installed"
    try:
        compiler.version()
    except MissingDependency as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def stand_in_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := _missing():
        pytest.skip(reason)
    folder = emulated_kernels.session_folder(tmp_path_factory)
    for name, (source, options) in LIBRARIES.items():
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", str(SOURCES / source), *options]

        def compile_to(path: Path, command: list[str] = command) -> None:
            subprocess.run([*command, "-o", str(path)], check=True)

        emulated_kernels.once(folder, name, compile_to)
    for dim, fp8 in dict.fromkeys((v.head_dim, v.kv_fp8) for v in VARIANTS):
        library = emulated_kernels.attention_library(folder, dim, fp8).path
        for variant in (v for v in VARIANTS if (v.head_dim, v.kv_fp8) == (dim, fp8)):
            emulated_kernels.once(folder, f"{variant.name}.so", lambda path, to=library: path.symlink_to(to))
    return folder


@pytest.fixture
def stand_in(stand_in_libraries: Path, tmp_path: Path) -> StandIn:
    return StandIn(stand_in_libraries, tmp_path / "home")


@pytest.fixture
def failing(stand_in: StandIn, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a quick calibration that must fail, and check that it left nothing behind and no traceback."""

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        out = tmp_path / "out"
        done = stand_in.command("--quick", "--gemm", "bf16", "--out", str(out), *arguments, **settings)
        assert done.returncode in (1, 2, 130), done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert not [p for p in out.rglob("*") if p.is_file()]
        assert not stand_in.saved()
        return done

    return run
