"""NVRTC compiles every kernel for every supported architecture: no spills, and tensor cores in the machine code."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from specadvisor.calibration import compiler
from specadvisor.calibration.attention_kernel import VARIANTS, Variant
from specadvisor.errors import MissingDependency

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
# Shared memory one block may use; sm_86, 89, 120 and 121 have the least.
BLOCK_BYTES = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "sm_103": 227 << 10}

try:
    compiler.version()
    MISSING = ""
except MissingDependency as error:
    MISSING = str(error)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "NVRTC is there")


def disassembler() -> tuple[str, str] | None:
    """(cuobjdump, folder of nvdisasm), from the wheels or a toolkit."""
    pathfinder = pytest.importorskip("cuda.pathfinder")
    tools = []
    for name in ("cuobjdump", "nvdisasm"):
        found = shutil.which(name) or pathfinder.find_nvidia_binary_utility(name)
        if not found:
            return None
        tools.append(found)
    return tools[0], str(Path(tools[1]).parent)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_memory_kernels_compile_without_spills(architecture: str) -> None:
    binary = compiler.compile_cubin("memory.cu", architecture)
    assert set(binary.kernels) == {
        "copy_vectors",
        "read_vectors",
        "fill_bf16",
        "fill_masked",
        "empty_kernel",
        "clock_probe",
    }
    assert all(r.spill_bytes == 0 and r.stack_bytes == 0 for r in binary.kernels.values())


MAIN = next(v for v in VARIANTS if v.name == "attention_d128_r16_bf16")
# Every variant meets one architecture here, besides the main variant that meets all; the 128 pairs take a minute
# (benchmarks/gpu/compile_all.py).
PAIRS = [(a, MAIN) for a in ARCHITECTURES]
PAIRS += [(ARCHITECTURES[i % len(ARCHITECTURES)], v) for i, v in enumerate(VARIANTS) if v != MAIN]


@cache
def compiled(architecture: str, variant: Variant) -> compiler.Binary:
    return compiler.compile_cubin("attention.cu", architecture, variant.defines)


@pytest.mark.parametrize(("architecture", "variant"), PAIRS, ids=lambda p: p if isinstance(p, str) else p.name)
def test_attention_compiles_without_spills(architecture: str, variant: Variant) -> None:
    kernels = compiled(architecture, variant).kernels
    assert set(kernels) == {variant.name, f"{variant.name}_combine"}
    assert all(r.spill_bytes == 0 and r.stack_bytes == 0 for r in kernels.values()), kernels
    assert variant.shared_bytes <= BLOCK_BYTES.get(architecture, 99 << 10)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_machine_code_uses_tensor_cores(architecture: str, tmp_path: Path) -> None:
    tools = disassembler()
    if tools is None:
        pytest.skip("cuobjdump or nvdisasm is not installed (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
    path = tmp_path / "attention.cubin"
    path.write_bytes(compiled(architecture, MAIN).cubin)
    done = subprocess.run([tools[0], "-sass", str(path)], capture_output=True, text=True, env={"PATH": tools[1]}, check=True)
    counts = {op: len(re.findall(rf"\b{op}\.", done.stdout)) for op in ("HMMA", "LDSM", "LDGSTS")}
    # one tile of the variant: 16 keys a warp = 2 blocks of keys x 8 dimension steps of scores, and as many of values
    assert counts["HMMA"] >= 32, counts
    assert counts["LDSM"] >= 8, counts
    assert counts["LDGSTS"] >= 8, counts


def test_a_wrong_architecture_is_named_in_the_error() -> None:
    with pytest.raises(compiler.CompileError, match="sm_12"):
        compiler.compile_cubin("memory.cu", "sm_12")
