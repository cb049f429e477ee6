"""What NVML knows: facts for the profile's provenance, and the clock and throttle sampler that runs beside a measurement.

Every query is optional: MIG, virtual GPUs and containers refuse some of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# Bits of nvmlDeviceGetCurrentClocksEventReasons. A power cap is how some boards always run; the others are trouble.
POWER_CAP = 0x4
SPOILING = {0x8: "hardware slowdown", 0x20: "software thermal limit", 0x40: "hardware thermal limit", 0x80: "power brake"}


@contextlib.contextmanager
def handle_of(uuid: str) -> Iterator[tuple[Any, Any] | None]:
    """(pynvml, handle) of the GPU whose CUDA UUID is ``uuid``, or ``None``: NVML counts GPUs in another order than CUDA."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        yield None
        return
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield _matching(pynvml, uuid)
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _matching(nvml: Any, uuid: str) -> tuple[Any, Any] | None:
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        for handle in handles:
            if any(_digits(nvml.nvmlDeviceGetUUID(h)) == uuid.lower() for h in (handle, *_slices(nvml, handle))):
                return nvml, handle
    except nvml.NVMLError:
        return None
    return (nvml, handles[0]) if len(handles) == 1 else None


def _digits(uuid: Any) -> str:
    text = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
    return text.removeprefix("GPU-").removeprefix("MIG-").replace("-", "").lower()


def _slices(nvml: Any, handle: Any) -> list[Any]:
    """The MIG slices of a GPU: CUDA reports a slice's UUID, but clocks and limits are those of the whole GPU."""
    found = []
    for i in range(int(_asked(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0)):
        with contextlib.suppress(nvml.NVMLError):
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i))
    return found


def _asked(query: Callable[[], Any]) -> Any:
    try:
        value = query()
    except Exception:  # refused queries raise NVMLError, AttributeError or, on an old driver, a bare mismatch Exception
        return None
    return value.decode() if isinstance(value, bytes) else value


def facts(uuid: str) -> dict[str, Any]:
    """Driver, clocks, power cap, MIG, ECC, persistence, links and other processes; absent where NVML does not say."""
    with handle_of(uuid) as found:
        if found is None:
            return {}
        nvml, handle = found
        queries: dict[str, Callable[[], Any]] = {
            "driver": nvml.nvmlSystemGetDriverVersion,
            "max_sm_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            "max_memory_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "default_power_limit_w": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
            "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
            "ecc": lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0]),
            "persistence": lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle)),
            "pcie_generation": lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
            "pcie_width": lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
            "nvlinks": lambda: _nvlinks(nvml, handle),
            "processes": lambda: [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)],
        }
        answers = {name: _asked(query) for name, query in queries.items()}
        return {name: value for name, value in answers.items() if value is not None}


def _nvlinks(nvml: Any, handle: Any) -> int:
    up = 0
    for link in range(int(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18))):
        try:
            up += nvml.nvmlDeviceGetNvLinkState(handle, link) == 1
        except nvml.NVMLError:
            break
    return up


@dataclass
class Clocks:
    """What a sampler saw during one section."""

    sm_mhz: list[int] = field(default_factory=list)
    memory_mhz: list[int] = field(default_factory=list)
    power_w: list[float] = field(default_factory=list)
    reasons: int = 0

    @property
    def spoiled(self) -> list[str]:
        """Names of the throttle reasons that make times worthless."""
        return [name for bit, name in SPOILING.items() if self.reasons & bit]

    def summary(self) -> dict[str, Any]:
        """Ranges for the profile's provenance."""
        found: dict[str, Any] = {}
        for name, values in (("sm_mhz", self.sm_mhz), ("memory_mhz", self.memory_mhz), ("power_w", self.power_w)):
            if values:
                found[name] = [min(values), max(values)]
        if self.reasons & POWER_CAP:
            found["power_capped"] = True
        return found


@contextlib.contextmanager
def sampled(uuid: str, period_s: float = 0.05) -> Iterator[Clocks]:
    """Sample clocks and throttle reasons on a thread while the body runs."""
    clocks, done = Clocks(), threading.Event()
    with handle_of(uuid) as found:
        if found is None:
            yield clocks
            return
        thread = threading.Thread(target=_sample, args=(*found, clocks, done, period_s), daemon=True)
        thread.start()
        try:
            yield clocks
        finally:
            done.set()
            thread.join()


def _sample(nvml: Any, handle: Any, clocks: Clocks, done: threading.Event, period_s: float) -> None:
    while True:
        for values, query in (
            (clocks.sm_mhz, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            (clocks.memory_mhz, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            (clocks.power_w, lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        ):
            value = _asked(query)
            if value is not None:
                values.append(value)
        clocks.reasons |= _reasons(nvml, handle)
        if done.wait(period_s):
            return


def _reasons(nvml: Any, handle: Any) -> int:
    """Throttle bits; drivers before 535 know the query by its old name only, future modules by its new one."""
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        bits = _asked(lambda name=name: getattr(nvml, name)(handle))  # type: ignore[misc]
        if bits is not None:
            return int(bits)
    return 0
