"""The shipped kernel text, compiled for the host, against float64 on random shapes."""

from __future__ import annotations

import mmap
import sys

import numpy as np
import pytest
from emulated_kernels import GXX, Case, attention_library, session_folder

from specadvisor.calibration import reference
from specadvisor.calibration.attention_kernel import VARIANTS, Variant
from specadvisor.calibration.checks import BF16_TOLERANCE

pytestmark = pytest.mark.skipif(GXX is None, reason="g++ is not installed")


def random_case(rng: np.random.Generator, variant: Variant, *, paged: bool, many_rows: bool) -> Case:
    kv_heads = int(rng.integers(1, 4))
    group = int(rng.choice([1, 2, 3, 4, 8]))
    wanted = variant.tile_rows * (2 if many_rows else 1)
    query_tokens = max(1, int(rng.integers(1, 1 + max(1, wanted // group))))
    lengths = [int(query_tokens + rng.integers(0, 200)) for _ in range(int(rng.integers(1, 4)))]
    return Case(
        rng,
        variant,
        query_tokens=query_tokens,
        heads=group * kv_heads,
        kv_heads=kv_heads,
        lengths=lengths,
        splits=int(rng.integers(1, 6)),
        page_size=int(rng.choice([8, 16, 32])) if paged else 0,
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_random_cases_match_float64(variant: Variant, tmp_path_factory: pytest.TempPathFactory) -> None:
    """16 variants x 3: contiguous and paged, ragged lengths, one to five splits, one or two row tiles."""
    library = attention_library(session_folder(tmp_path_factory), variant.head_dim, variant.kv_fp8)
    rng = np.random.default_rng(VARIANTS.index(variant))
    for paged, many_rows in ((False, False), (True, False), (True, True)):
        case = random_case(rng, variant, paged=paged, many_rows=many_rows and variant.tile_rows < 128)
        assert case.error(library) < BF16_TOLERANCE, (case.lengths, case.rows, case.splits, paged)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_one_key_and_more_splits_than_tiles(head_dim: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    library = attention_library(session_folder(tmp_path_factory), head_dim, False)
    variant = next(v for v in VARIANTS if v.head_dim == head_dim and not v.kv_fp8)
    rng = np.random.default_rng(7)
    case = Case(rng, variant, query_tokens=1, heads=2, kv_heads=2, lengths=[1, 90], splits=8)
    assert case.error(library) < BF16_TOLERANCE


def test_every_e4m3_value_survives_the_conversion(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One visible key makes the output equal to its value row: all 254 finite bytes pass through the kernel exactly."""
    library = attention_library(session_folder(tmp_path_factory), 128, True)
    variant = next(v for v in VARIANTS if v.head_dim == 128 and v.kv_fp8)
    finite = np.array([b for b in range(256) if b not in (0x7F, 0xFF)], np.uint8)
    case = Case(np.random.default_rng(0), variant, query_tokens=1, heads=2, kv_heads=2, lengths=[1])
    values = np.resize(finite, case.v.shape)
    case.v[...] = values
    case.values = reference.from_e4m3(values)
    case.error(library)
    assert np.array_equal(reference.from_bf16(case.out).ravel(), reference.from_e4m3(values).ravel())


@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is not committed until it is touched")
@pytest.mark.parametrize("page_size", [0, 16])
def test_caches_past_four_gigabytes(page_size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The third of three sequences lies 2^31 elements (4.3 GB) into K and V: as indices, no 32-bit integer reaches it."""
    library = attention_library(session_folder(tmp_path_factory), 128, False)
    variant = next(v for v in VARIANTS if v.head_dim == 128 and not v.kv_fp8)
    lengths, kv_heads, capacity = [20, 33, 48], 8, 1 << 20
    case = Case(np.random.default_rng(3), variant, query_tokens=2, heads=8, kv_heads=kv_heads, lengths=lengths, splits=2)
    no_reserve = 0x4000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    stores = [mmap.mmap(-1, len(lengths) * capacity * kv_heads * 128 * 2, flags=flags) for _ in range(2)]
    far = [np.frombuffer(store, np.uint16).reshape(len(lengths), capacity, kv_heads, 128) for store in stores]
    for target, source in zip(far, (case.k, case.v), strict=True):
        target[:, : source.shape[1]] = source
    case.params.k, case.params.v, case.params.capacity = far[0].ctypes.data, far[1].ctypes.data, capacity
    if page_size:  # the same places, reached through page numbers
        first = np.arange(len(lengths)) * (capacity // page_size)
        table = np.ascontiguousarray(first[:, None] + np.arange(4), np.int32)
        case.params.block_table, case.params.page_size, case.params.max_pages = table.ctypes.data, page_size, 4
    assert case.error(library) < BF16_TOLERANCE
