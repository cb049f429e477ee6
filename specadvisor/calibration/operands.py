"""Device memory and small kernels that every measurement uses: allocation with one owner, random fills, rotation sets."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from specadvisor.calibration import compiler
from specadvisor.calibration.driver import Device, Kernel, Module
from specadvisor.calibration.gemm_formats import E4M3_MASK
from specadvisor.calibration.timing import rotation

THREADS = 256
MEMORY_SHARE = 0.6  # of the free memory: engines or desktops may run beside us


class Bench:
    """A device with the memory kernels loaded. ``scratch()`` gives memory that is freed when its block ends."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stream = device.stream
        compiler.require_loadable(device.compute_capability, device.driver_version)
        binary = compiler.compile_cubin("memory.cu", device.architecture)
        self.binaries = {"memory.cu": binary}
        module = Module(binary.cubin)
        names = {"copy_vectors": THREADS, "read_vectors": THREADS, "fill_bf16": THREADS, "fill_masked": THREADS}
        self._kernels = {
            name: module.kernel(name, threads) for name, threads in {**names, "empty_kernel": 32, "clock_probe": 32}.items()
        }
        self._owned: list[int] = []
        self._seed = 0

    def kernel(self, name: str) -> Kernel:
        return self._kernels[name]

    @property
    def grid(self) -> tuple[int]:
        """Blocks that fill the GPU with some to spare."""
        return (self.device.sm_count * 16,)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """Everything allocated inside the block is freed at its end, also after an error."""
        before = len(self._owned)
        try:
            yield
        finally:
            mine, self._owned = self._owned[before:], self._owned[:before]
            with contextlib.suppress(Exception):  # after a failed kernel nothing can be freed; the first error matters
                self.device.synchronise()
                for pointer in mine:
                    self.device.free(pointer)

    def allocate(self, size: float) -> int:
        pointer = self.device.allocate(max(256, int(size)))
        self._owned.append(pointer)
        return pointer

    def sets_that_fit(self, bytes_per_set: float) -> int:
        """Operand sets for cold reads, as far as memory allows; 0 where not even one fits."""
        room = int(self.device.free_bytes() * MEMORY_SHARE // max(1.0, bytes_per_set))
        return min(room, rotation(bytes_per_set, self.device.l2_bytes))

    def fill_bf16(self, pointer: int, size: int, amplitude: float = 1.0) -> None:
        """Uniform random bf16 in (-amplitude, amplitude): zeros would run faster than real data."""
        arguments = (ctypes.c_void_p(pointer), ctypes.c_uint64(size // 4), self._next_seed(), ctypes.c_float(amplitude))
        self._kernels["fill_bf16"].launch(self.stream, self.grid, *arguments)

    def fill_bits(self, pointer: int, size: int, mask: int = E4M3_MASK) -> None:
        """Random bits under ``mask`` (a 32-bit word)."""
        arguments = (ctypes.c_void_p(pointer), ctypes.c_uint64(size // 4), self._next_seed(), ctypes.c_uint32(mask))
        self._kernels["fill_masked"].launch(self.stream, self.grid, *arguments)

    def _next_seed(self) -> ctypes.c_uint32:
        self._seed += 1
        return ctypes.c_uint32(self._seed)
