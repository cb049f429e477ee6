"""Builds the shipped kernel text for the host with g++ and runs it: what the numeric tests and the stand-in driver use."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specadvisor.calibration import reference
from specadvisor.calibration.attention_kernel import VARIANTS, AttentionParams, Variant
from specadvisor.calibration.compiler import SOURCES

HERE = Path(__file__).parent
GXX = shutil.which("g++")

# C linkage name -> C++ expression that calls it with the arguments of a kernel launch
_MEMORY_CALLS = {
    "copy_vectors": "copy_vectors(*(Vector16**)a[0], *(const Vector16**)a[1], *(u64*)a[2])",
    "read_vectors": "read_vectors(*(u32**)a[0], *(const Vector16**)a[1], *(u64*)a[2], *(u32*)a[3])",
    "fill_bf16": "fill_bf16(*(u32**)a[0], *(u64*)a[1], *(u32*)a[2], *(float*)a[3])",
    "fill_masked": "fill_masked(*(u32**)a[0], *(u64*)a[1], *(u32*)a[2], *(u32*)a[3])",
    "empty_kernel": "empty_kernel(*(u32**)a[0])",
}


def _launcher(calls: Mapping[str, str]) -> str:
    branches = "\n".join(
        f'  if (!strcmp(name, "{name}")) return emulation::launch(grid, threads, shared, [](void** a) {{ {call}; }}, a);'
        for name, call in calls.items()
    )
    return (
        'extern "C" const char* emulated_failure() { return emulation::failure; }\n'
        'extern "C" int emulated_launch(const char* name, unsigned gx, unsigned gy, unsigned gz, unsigned threads,'
        f" size_t shared, void** a) {{\n  Dim3 grid{{gx, gy, gz}};\n{branches}\n  return -1;\n}}\n"
    )


def attention_source(copies: Sequence[tuple[str, Variant, Path]]) -> str:
    """One translation unit with several compilations of the kernel text, each under its own name (and namespace)."""
    parts, calls = ['#include "primitives.cuh"'], {}
    for name, variant, text in copies:
        defines = {**variant.defines, "ATTENTION_KERNEL": name, "COMBINE_KERNEL": f"{name}_combine"}
        parts += [f"#define {key} {value}" for key, value in defines.items()]
        parts += [f"namespace in_{name} {{", f'#include "{text}"', "}"]
        parts += [f"#undef {key}" for key in defines]
        for kernel in (name, f"{name}_combine"):
            calls[kernel] = f"in_{name}::{kernel}(*(in_{name}::AttentionParams*)a[0])"
    return "\n".join(parts) + "\n" + _launcher(calls)


def memory_source() -> str:
    return '#include "memory.cu"\n' + _launcher(_MEMORY_CALLS)


class EmulatedLibrary:
    """Kernels compiled for the host; ``launch`` takes what a driver launch takes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.emulated_launch.argtypes = [ctypes.c_char_p, *[ctypes.c_uint] * 4, ctypes.c_size_t, ctypes.c_void_p]
        self._library.emulated_failure.restype = ctypes.c_char_p

    def launch(self, name: str, grid: tuple[int, int, int], threads: int, shared: int, *arguments: object) -> None:
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])  # type: ignore[arg-type]
        code = self._library.emulated_launch(name.encode(), *grid, threads, shared, pointers)
        if code:
            raise RuntimeError(f"{name}: {self._library.emulated_failure().decode() or 'unknown kernel'}")


def build(source: str, path: Path, optimise: str = "-O1") -> EmulatedLibrary:
    """Compile ``source`` (a translation unit) to the shared library ``path``."""
    unit = path.with_suffix(".cpp")
    unit.write_text(source)
    command = [
        *[str(GXX), optimise, "-w", "-std=c++17", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-DHOST_EMULATION=1"],
        *["-I", str(HERE), "-I", str(SOURCES), "-o", str(path), str(unit)],
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return EmulatedLibrary(path)


def aligned(values: NDArray) -> NDArray:
    """A copy that starts on a 64-byte boundary, as device allocations do."""
    raw = np.empty(values.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    view[...] = values
    return view


class Case:
    """Random attention inputs; keys past a sequence's length, unused page slots and all outputs start as NaN."""

    def __init__(
        self,
        rng: np.random.Generator,
        variant: Variant,
        *,
        query_tokens: int,
        heads: int,
        kv_heads: int,
        lengths: Sequence[int],
        splits: int = 1,
        page_size: int = 0,
    ) -> None:
        self.variant, self.splits, self.lengths = variant, splits, np.asarray(lengths, np.int32)
        batch, dim, capacity = len(lengths), variant.head_dim, max(lengths)
        self.q = aligned(reference.to_bf16(rng.standard_normal((batch, query_tokens, heads, dim)) * 2))
        keys, values = (self._cache(rng, (batch, capacity, kv_heads, dim)) for _ in range(2))
        self.keys, self.values = self._decoded(keys), self._decoded(values)
        poison = 0x7F if variant.kv_fp8 else reference.BITS_BF16_NAN
        for b, length in enumerate(lengths):
            keys[b, length:] = values[b, length:] = poison
        self.table = None
        if page_size:
            keys, values = self._paged(rng, keys, values, page_size, poison)
        self.k, self.v = aligned(keys), aligned(values)
        self.out = aligned(np.full(self.q.shape, reference.BITS_BF16_NAN, np.uint16))
        rows = query_tokens * heads // kv_heads
        self.rows, self.kv_heads, self.batch = rows, kv_heads, batch
        self.partial_out = np.full((splits, batch, kv_heads, rows, dim), np.nan, np.float32)
        self.partial_lse = np.full((splits, batch, kv_heads, rows), np.nan, np.float32)
        self.params = AttentionParams(
            q=self.q.ctypes.data,
            k=self.k.ctypes.data,
            v=self.v.ctypes.data,
            out=self.out.ctypes.data,
            partial_out=self.partial_out.ctypes.data,
            partial_lse=self.partial_lse.ctypes.data,
            lengths=self.lengths.ctypes.data,
            block_table=self.table.ctypes.data if self.table is not None else None,
            batch=batch,
            query_tokens=query_tokens,
            heads=heads,
            kv_heads=kv_heads,
            capacity=capacity,
            page_size=page_size,
            max_pages=self.table.shape[1] if self.table is not None else 0,
            splits=splits,
            scale_log2=dim**-0.5 * np.log2(np.e),
        )

    def _cache(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
        if self.variant.kv_fp8:
            return (rng.integers(0, 256, shape, dtype=np.uint8)) & 0xBF
        return reference.to_bf16(rng.standard_normal(shape))

    def _decoded(self, cache: NDArray) -> NDArray:
        return (reference.from_e4m3 if self.variant.kv_fp8 else reference.from_bf16)(cache.copy())

    def _paged(
        self, rng: np.random.Generator, keys: NDArray, values: NDArray, page: int, poison: int
    ) -> tuple[NDArray, NDArray]:
        batch, capacity = keys.shape[:2]
        pages = -(-capacity // page)
        self.table = np.ascontiguousarray(rng.permutation(batch * pages).reshape(batch, pages).astype(np.int32))
        stores = [np.full((batch * pages, page, *keys.shape[2:]), poison, keys.dtype) for _ in range(2)]
        for b in range(batch):
            for n in range(int(self.lengths[b])):
                for store, source in zip(stores, (keys, values), strict=True):
                    store[self.table[b, n // page], n % page] = source[b, n]
        return stores[0], stores[1]

    def error(self, library: EmulatedLibrary, name: str | None = None) -> float:
        """Run the kernel and its combine step; relative error against float64, infinite where an output is not finite."""
        name, v = name or self.variant.name, self.variant
        row_tiles = -(-self.rows // v.tile_rows)
        library.launch(name, (self.splits, self.kv_heads * row_tiles, self.batch), v.threads, v.shared_bytes, self.params)
        if self.splits > 1:
            library.launch(f"{name}_combine", (self.rows, self.kv_heads, self.batch), v.head_dim // 2, 0, self.params)
        want = reference.attention(reference.from_bf16(self.q), self.keys, self.values, self.lengths)
        return reference.relative_error(reference.from_bf16(self.out), want)


def once(folder: Path, name: str, make: Callable[[Path], object]) -> Path:
    """``folder / name``, made by the first test process that asks; the others wait for it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make(path)
    return path


def attention_library(folder: Path, head_dim: int, kv_fp8: bool) -> EmulatedLibrary:
    """Every variant of one head dimension and cache format, built once per test session."""
    variants = [v for v in VARIANTS if v.head_dim == head_dim and v.kv_fp8 == kv_fp8]
    source = attention_source([(v.name, v, SOURCES / "attention.cu") for v in variants])
    name = f"attention_{head_dim}_{'fp8' if kv_fp8 else 'bf16'}.so"
    return EmulatedLibrary(once(folder, name, lambda path: build(source, path)))


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that the test processes of one session share."""
    base = factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "emulated"
