"""Compile every kernel variant for every architecture and print registers and spills. Needs NVRTC, no GPU; about a minute.

python benchmarks/gpu/compile_all.py
"""

from __future__ import annotations

import sys

from specadvisor.calibration import compiler
from specadvisor.calibration.attention_kernel import VARIANTS

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")


def main() -> int:
    spilled = 0
    print(f"NVRTC {compiler.version()}")
    for variant in VARIANTS:
        registers = []
        for architecture in ARCHITECTURES:
            kernels = compiler.compile_cubin("attention.cu", architecture, variant.defines).kernels
            spilled += sum(r.spill_bytes for r in kernels.values())
            registers.append(f"{architecture} {kernels[variant.name].registers}")
        print(f"{variant.name:24s} {variant.shared_bytes >> 10:3d} KiB shared, registers: {', '.join(registers)}", flush=True)
    print(f"spilled bytes: {spilled}")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
