"""The GPU of this machine, asked through NVML (``nvidia-ml-py``); every query but the name is optional."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specadvisor.errors import InputError, MissingDependency

INSTEAD = "Name the GPU instead, e.g. --gpu h100_sxm; `specadvisor gpus` lists ids, and a .toml or .json file also works."


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """What NVML says about the first GPU; ``None`` where the driver does not answer (unified memory, MIG, vGPU)."""

    name: str
    count: int
    memory_bytes: float | None
    power_limit_w: float | None
    default_power_limit_w: float | None

    @property
    def lowered_power_limit_w(self) -> float | None:
        """The power limit if somebody lowered it below the default of this board, else ``None``."""
        if self.power_limit_w is None or self.default_power_limit_w is None:
            return None
        return self.power_limit_w if self.power_limit_w < 0.98 * self.default_power_limit_w else None


def find_local_gpu() -> LocalGpu:
    """The first GPU of this machine and how many of the same name there are.

    Raises ``MissingDependency`` without ``nvidia-ml-py``, driver or GPU, saying what can be passed instead.
    """
    try:
        import pynvml
    except ImportError as error:
        raise MissingDependency("nvidia-ml-py", "gpu auto", f"pip install nvidia-ml-py. {INSTEAD}") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise MissingDependency("NVIDIA driver", "gpu auto", f"NVML says: {error}. {INSTEAD}") from error
    try:
        return _read(pynvml)
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any) -> LocalGpu:
    total = int(nvml.nvmlDeviceGetCount())
    if total == 0:
        raise MissingDependency("NVIDIA GPU", "gpu auto", f"The driver sees none. {INSTEAD}")
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(total)]
    names = [_text(nvml.nvmlDeviceGetName(handle)) for handle in handles]
    if len(set(names)) > 1:
        raise InputError("gpu auto", ", ".join(names), "one kind of GPU per machine", INSTEAD)
    first = handles[0]

    def ask(query: Callable[[], float], scale: float = 1.0) -> float | None:
        try:
            return float(query()) * scale
        except nvml.NVMLError:
            return None

    return LocalGpu(
        name=names[0],
        count=total,
        memory_bytes=ask(lambda: nvml.nvmlDeviceGetMemoryInfo(first).total),
        power_limit_w=ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(first), 1e-3),
        default_power_limit_w=ask(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(first), 1e-3),
    )


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
