"""Which GPU of the catalogue is open, and what to assume about one that is not listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specadvisor.calibration.driver import Device
from specadvisor.calibration.rows import Row
from specadvisor.errors import InputError
from specadvisor.hardware import datasheet, list_gpus, match_local
from specadvisor.hardware.catalogue import gpu_facts, unlisted_id
from specadvisor.hardware.gpu import Gpu

# Dense FLOP per clock and SM with fp32 accumulation, from the datasheet peaks of each generation's data-centre or largest part:
# (bf16, fp8 or int8, fp4). First row at or below the compute capability counts.
_FLOPS_PER_CLOCK = (
    (120, 1024, 2048, 4096),
    (100, 8192, 16384, 32768),
    (90, 4096, 8192, 0),
    (89, 1024, 2048, 0),
    (86, 1024, 0, 0),
    (0, 2048, 0, 0),
)


def identify(device: Device, named: str) -> tuple[Gpu, bool]:
    """(GPU, whether it is in the catalogue). ``named`` is what the user asked for, ``auto`` to go by the device's name.

    A GPU outside the catalogue is described by its driver attributes, with peaks of its generation. Raises ``InputError``
    where the device is another GPU of the catalogue than the one named.
    """
    if named.lower() != "auto":
        gpu = gpu_facts(named)
        check_name(device.name, gpu)
        return gpu, gpu.id in list_gpus()
    for memory_bytes in (device.memory_bytes, None):  # CUDA and NVML count reserved memory differently
        try:
            return datasheet(match_local(device.name, memory_bytes).id), True
        except InputError:
            continue
    return unlisted(device), False


def check_name(device_name: str, gpu: Gpu) -> list[str]:
    """A note where nothing tells whether the open device is ``gpu``; raises ``InputError`` where it is another one.

    ``device_name``: as the driver prints it; a MIG slice counts as its GPU.
    """
    name = device_name.partition(" MIG ")[0].strip()
    if name.lower() in (known.lower() for known in (gpu.name, *gpu.nvml_names)):
        return []
    others = [o for o in map(datasheet, list_gpus()) if name.lower() in (known.lower() for known in o.nvml_names)]
    if others and gpu.id in list_gpus():
        accepted = " or ".join(o.id for o in others)
        raise InputError("gpu", gpu.id, f"{accepted} or auto", f"This one is a {device_name}.")
    return [f"the driver calls this GPU {device_name!r}, a name that {gpu.id} does not list: check that it is one"]


def unlisted(device: Device) -> Gpu:
    """Facts from the driver; peaks from SM count, clock and the generation's rate, marked as low confidence.

    Where the driver hides the memory clock, the bandwidth is 0 until ``with_measured_bandwidth``.
    """
    capability = device.compute_capability
    _, bf16, fp8, fp4 = next(row for row in _FLOPS_PER_CLOCK if capability >= row[0])
    clock_hz = device.attributes.get("sm_clock_khz", 1_500_000) * 1e3
    rate = device.sm_count * clock_hz
    peaks = {name: flops * rate for name, flops in (("bf16", bf16), ("fp16", bf16), ("fp8", fp8), ("fp4", fp4)) if flops}
    return Gpu(
        id=unlisted_id(device.name),
        name=device.name,
        family="unlisted",
        sm=capability,
        memory_bytes_per_s=device.peak_bytes_per_s,
        memory_bytes=float(device.memory_bytes),
        sm_count=device.sm_count,
        l2_bytes=float(device.l2_bytes),
        peaks=peaks,
        link_bytes_per_s=0.0,
        nvlink=False,
        pcie_bytes_per_s=0.0,
        boost_hz=clock_hz,
        tdp_w=300.0,
        gpus_per_node=1,
        confidence="low",
        source="driver attributes; peaks estimated from SM count, clock and generation",
    )


def with_measured_bandwidth(gpu: Gpu, rows: Sequence[Row]) -> Gpu:
    """``gpu`` with the bandwidth of its fastest read, and a margin, where nothing else is known."""
    if gpu.memory_bytes_per_s:
        return gpu
    speeds = [r.bytes / r.us * 1e6 for r in rows if r.operator == "bandwidth" and r.bytes and r.bytes > 8 * gpu.l2_bytes]
    return replace(gpu, memory_bytes_per_s=1.1 * max(speeds, default=1e11))
