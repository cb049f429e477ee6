"""Copy, read and fill kernels, compiled for the host."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulated_kernels import GXX, EmulatedLibrary, build, memory_source, once, session_folder

from specadvisor.calibration import reference
from specadvisor.calibration.gemm_formats import E4M3_MASK

pytestmark = pytest.mark.skipif(GXX is None, reason="g++ is not installed")
BLOCKS, THREADS = 3, 256


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> EmulatedLibrary:
    source = memory_source()
    return EmulatedLibrary(once(session_folder(tmp_path_factory), "memory.so", lambda path: build(source, path)))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("vectors", [1, 767, 768 * 4, 768 * 9 + 5])
def test_copy_and_read_touch_every_vector_once(library: EmulatedLibrary, vectors: int) -> None:
    source = np.random.default_rng(vectors).integers(0, 2**32, vectors * 4, dtype=np.uint32)
    target, hashes = np.zeros_like(source), np.zeros(BLOCKS * THREADS, np.uint32)
    count = ctypes.c_uint64(vectors)
    library.launch("copy_vectors", (BLOCKS, 1, 1), THREADS, 0, pointer(target), pointer(source), count)
    arguments = (pointer(hashes), pointer(source), count)
    library.launch("read_vectors", (BLOCKS, 1, 1), THREADS, 0, *arguments, ctypes.c_uint32(0))
    assert not hashes.any()
    library.launch("read_vectors", (BLOCKS, 1, 1), THREADS, 0, *arguments, ctypes.c_uint32(1))
    assert np.array_equal(target, source)
    assert np.bitwise_xor.reduce(hashes) == np.bitwise_xor.reduce(source)


def test_random_bf16_is_uniform_within_the_amplitude(library: EmulatedLibrary) -> None:
    words = np.zeros(20_000, np.uint32)
    arguments = (pointer(words), ctypes.c_uint64(len(words)), ctypes.c_uint32(3), ctypes.c_float(2.0))
    library.launch("fill_bf16", (BLOCKS, 1, 1), THREADS, 0, *arguments)
    values = reference.from_bf16(words.view(np.uint16))
    assert np.abs(values).max() <= 2.0
    assert abs(values.mean()) < 0.03
    assert abs(values.std() - 2.0 / np.sqrt(3)) < 0.03


def test_random_e4m3_has_no_nan_and_stays_below_two(library: EmulatedLibrary) -> None:
    words = np.zeros(5_000, np.uint32)
    arguments = (pointer(words), ctypes.c_uint64(len(words)), ctypes.c_uint32(5), ctypes.c_uint32(E4M3_MASK))
    library.launch("fill_masked", (BLOCKS, 1, 1), THREADS, 0, *arguments)
    values = reference.from_e4m3(words.view(np.uint8))
    assert np.isfinite(values).all()
    assert np.abs(values).max() < 2.0
    assert len(np.unique(words)) > 4_900
