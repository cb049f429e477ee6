"""One GPU: datasheet facts, their source, and the kernel profile that was fitted for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specadvisor.hardware.kernel_profile import KernelProfile


@dataclass(frozen=True)
class Gpu:
    """Dense peaks (never "with sparsity") in FLOP/s by compute format: ``bf16 fp16 int8 fp8 fp4``; a format that the
    tensor cores lack is absent and falls back as ``peak`` says. ``sm`` is the compute capability (90 = Hopper).
    ``link_bytes_per_s`` is per direction inside a node (NVLink where every GPU has it, else PCIe: ``nvlink`` says which).
    ``clock_scale`` < 1 models a power limit or clock below default: it scales compute, not memory bandwidth.
    ``aliases`` are other accepted ids, ``nvml_names`` the names that the driver prints.
    """

    id: str
    name: str
    family: str
    sm: int
    memory_bytes_per_s: float
    memory_bytes: float
    sm_count: int
    l2_bytes: float
    peaks: Mapping[str, float]
    link_bytes_per_s: float
    nvlink: bool
    pcie_bytes_per_s: float
    boost_hz: float
    tdp_w: float
    gpus_per_node: int
    aliases: tuple[str, ...] = ()
    nvml_names: tuple[str, ...] = ()
    unified_memory: bool = False
    confidence: str = ""
    source: str = ""
    note: str = ""
    clock_scale: float = 1.0
    power_limit_w: float | None = None
    kernels: KernelProfile | None = field(default=None, compare=False, repr=False)

    def peak(self, compute: str) -> float:
        """FLOP/s of ``compute``; fp4 without fp4 units runs at the fp8 peak, fp8/int8 without units at the 16-bit peak."""
        order = {"fp4": ("fp4", "fp8", "bf16", "fp16"), "fp8": ("fp8", "bf16", "fp16"), "int8": ("int8", "bf16", "fp16")}
        for name in order.get(compute, ("bf16", "fp16")):
            if self.peaks.get(name):
                return self.peaks[name] * self.clock_scale
        raise KeyError(compute)
