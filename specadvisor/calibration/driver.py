"""The one thin layer over ``cuda.bindings.driver``: device, memory, modules, launches (events and graphs: ``graphs``).

``cuda.bindings`` is imported inside the functions: nothing else of specadvisor but the compiler touches it, and nothing here
costs a user who does not calibrate.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration import dependencies
from specadvisor.errors import InputError, SpecadvisorError

# Every stand-in driver of a test suite exports this symbol. A profile measured on one must never reach a user.
STAND_IN_SYMBOL = "specadvisor_stand_in"
_NO_DEVICE = 100

_ATTRIBUTES = {
    "cc_major": "COMPUTE_CAPABILITY_MAJOR", "cc_minor": "COMPUTE_CAPABILITY_MINOR", "sm_count": "MULTIPROCESSOR_COUNT",
    "l2_bytes": "L2_CACHE_SIZE", "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH", "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "sm_clock_khz": "CLOCK_RATE", "shared_bytes_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "shared_bytes_per_block": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "ecc": "ECC_ENABLED", "integrated": "INTEGRATED",
}  # fmt: skip


class CudaError(SpecadvisorError):
    """The driver refused a call; ``code`` is its CUresult."""

    def __init__(self, name: str, code: int, what: str) -> None:
        self.name, self.code = name, code
        super().__init__(f"{what}: the CUDA driver answers {name} ({code}).")


def bindings() -> Any:
    """The low-level driver API; raises ``ImportError`` without cuda-python."""
    from cuda.bindings import driver

    return driver


def checked(result: Any, what: str) -> Any:
    """The values of a driver call, without its error code; raises ``CudaError`` saying ``what`` failed."""
    error: Any
    values: list[Any]
    error, *values = result if isinstance(result, tuple) else (result,)
    if int(error):
        name = bindings().cuGetErrorName(error)[1]
        raise CudaError((name or b"unknown error").decode(), int(error), what)
    return values[0] if len(values) == 1 else tuple(values)


def initialise() -> int:
    """Initialise the driver and return the number of devices; ``MissingDependency`` says exactly what is not there."""
    try:
        driver = bindings()
    except ImportError as error:
        raise dependencies.missing_bindings() from error
    try:
        checked(driver.cuInit(0), "Initialising CUDA")
        count = int(checked(driver.cuDeviceGetCount(), "Counting GPUs"))
    except CudaError as error:
        if error.code == _NO_DEVICE:
            raise dependencies.missing_gpu(error.name) from error
        raise
    except RuntimeError as error:  # cuda-bindings found no libcuda; the class differs between its versions
        raise dependencies.missing_driver(str(error).splitlines()[0]) from error
    if count == 0:
        raise dependencies.missing_gpu("0 devices")
    return count


def is_stand_in() -> bool:
    """Whether the driver that answers is a test's stand-in instead of NVIDIA's."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1"), STAND_IN_SYMBOL)
    except OSError:
        return False


@dataclass
class Device:
    """One GPU with its primary context (which cuBLASLt and torch share) and a non-blocking stream."""

    ordinal: int
    name: str
    uuid: str
    memory_bytes: int
    driver_version: int
    attributes: dict[str, int]
    stream: Any
    _handle: Any

    @classmethod
    def open(cls, ordinal: int = 0) -> Device:
        """Retain the primary context of device ``ordinal`` and make it current."""
        driver = bindings()
        handle = checked(driver.cuDeviceGet(ordinal), f"Opening GPU {ordinal}")
        context = checked(driver.cuDevicePrimaryCtxRetain(handle), "Creating a CUDA context")
        checked(driver.cuCtxSetCurrent(context), "Creating a CUDA context")
        attributes = {}
        for key, name in _ATTRIBUTES.items():
            with contextlib.suppress(CudaError, AttributeError):
                attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
                attributes[key] = int(checked(driver.cuDeviceGetAttribute(attribute, handle), name))
        return cls(
            ordinal=ordinal,
            name=checked(driver.cuDeviceGetName(128, handle), "Reading the GPU's name").split(b"\0")[0].decode(),
            uuid=bytes(checked(driver.cuDeviceGetUuid(handle), "Reading the GPU's UUID").bytes).hex(),
            memory_bytes=int(checked(driver.cuDeviceTotalMem(handle), "Reading the GPU's memory")),
            driver_version=int(checked(driver.cuDriverGetVersion(), "Reading the driver's version")),
            attributes=attributes,
            stream=checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING), "Creating a stream"),
            _handle=handle,
        )

    @property
    def compute_capability(self) -> int:
        """90 for Hopper."""
        return self.attributes["cc_major"] * 10 + self.attributes["cc_minor"]

    @property
    def architecture(self) -> str:
        return f"sm_{self.compute_capability}"

    @property
    def sm_count(self) -> int:
        return self.attributes["sm_count"]

    @property
    def l2_bytes(self) -> int:
        return self.attributes.get("l2_bytes") or 50 << 20

    @property
    def peak_bytes_per_s(self) -> float:
        """Bus width times memory clock at double data rate; 0 where the driver hides the clock."""
        return 2e3 * self.attributes.get("memory_clock_khz", 0) * self.attributes.get("memory_bus_bits", 0) / 8

    def free_bytes(self) -> int:
        return int(checked(bindings().cuMemGetInfo(), "Reading free memory")[0])

    def allocate(self, size: int) -> int:
        return int(checked(bindings().cuMemAlloc(size), f"Allocating {size / 1e6:,.0f} MB of GPU memory"))

    def free(self, pointer: int) -> None:
        checked(bindings().cuMemFree(pointer), "Freeing GPU memory")

    # The stream is non-blocking, so it does not order with the default stream that plain copies use: they synchronise.
    def upload(self, pointer: int, values: NDArray[Any]) -> None:
        checked(bindings().cuMemcpyHtoD(pointer, values.ctypes.data, values.nbytes), "Copying to the GPU")
        self.synchronise()

    def download(self, values: NDArray[Any], pointer: int) -> None:
        self.synchronise()
        checked(bindings().cuMemcpyDtoH(values.ctypes.data, pointer, values.nbytes), "Copying from the GPU")

    def read(self, pointer: int, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
        """A host copy of what lies at ``pointer``."""
        values: NDArray[Any] = np.empty(shape, dtype)
        self.download(values, pointer)
        return values

    def set_bytes(self, pointer: int, byte: int, size: int) -> None:
        checked(bindings().cuMemsetD8Async(pointer, byte, size, self.stream), "Setting GPU memory")

    def synchronise(self) -> None:
        checked(bindings().cuCtxSynchronize(), "Waiting for the GPU")

    def close(self) -> None:
        """Release stream and context; errors are ignored, because a failed kernel leaves the context unusable."""
        with contextlib.suppress(Exception):
            bindings().cuStreamDestroy(self.stream)
            bindings().cuDevicePrimaryCtxRelease(self._handle)


class Module:
    """A loaded CUBIN."""

    def __init__(self, cubin: bytes) -> None:
        self._module = checked(bindings().cuModuleLoadData(cubin), "Loading a kernel")

    def kernel(self, name: str, threads: int, shared_bytes: int = 0) -> Kernel:
        """The kernel ``name``, ready to be launched with blocks of ``threads`` and that much dynamic shared memory."""
        driver = bindings()
        function = checked(driver.cuModuleGetFunction(self._module, name.encode()), f"Finding the kernel {name}")
        if shared_bytes > 48 * 1024:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(
                driver.cuFuncSetAttribute(function, attribute, shared_bytes), f"Giving {name} {shared_bytes} B shared memory"
            )
        return Kernel(name, function, threads, shared_bytes)


@dataclass(frozen=True)
class Kernel:
    """One function with its block size."""

    name: str
    function: Any
    threads: int
    shared_bytes: int

    def blocks_per_sm(self) -> int:
        call = bindings().cuOccupancyMaxActiveBlocksPerMultiprocessor
        return max(1, int(checked(call(self.function, self.threads, self.shared_bytes), f"Occupancy of {self.name}")))

    def launch(self, stream: Any, grid: tuple[int, ...], *arguments: Any) -> None:
        """``arguments`` are ctypes scalars or structures; the driver copies them before this returns."""
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*[ctypes.addressof(a) for a in arguments])
        x, y, z = (*grid, 1, 1)[:3]
        launch = bindings().cuLaunchKernel
        result = launch(
            self.function, x, y, z, self.threads, 1, 1, self.shared_bytes, stream, ctypes.addressof(pointers), 0
        )  # fmt: skip
        checked(result, f"Launching {self.name}")


@contextlib.contextmanager
def opened(ordinal: int = 0) -> Iterator[Device]:
    """The device ``ordinal``, closed afterwards whatever happens; raises ``InputError`` for one that is not there."""
    count = initialise()
    if not 0 <= ordinal < count:
        raise InputError("index", ordinal, f"0 to {count - 1}", "CUDA counts the GPUs that CUDA_VISIBLE_DEVICES lets it see.")
    device = Device.open(ordinal)
    try:
        yield device
    except ValueError as error:  # what the bindings raise for an error code that is newer than they are
        code, _, text = str(error).partition(" ")
        if text != "is not a valid CUresult":
            raise
        raise CudaError("an error unknown to cuda-bindings", int(code), "Measuring") from error
    finally:
        device.close()
