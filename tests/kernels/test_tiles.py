"""How kernels cut query rows into tiles, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from specadvisor.kernels import attention_s, mla_s
from specadvisor.kernels.tiles import tile_passes
from specadvisor.serving import AttentionBackend

FA3 = AttentionBackend("kernel", (128,))
FA3_D64 = AttentionBackend("kernel", tile_rows=(192,))
FLASHINFER = AttentionBackend("kernel", tile_rows=(16, 64, 128))
TRTLLM_GEN = AttentionBackend("kernel", tile_rows=(8, 16, 32, 64, 128), whole_tokens=True)
TRITON = AttentionBackend("kernel", tile_rows=(16,), whole_tokens=True, splits_kv_multi_query=False)
FA2 = AttentionBackend("kernel", tile_rows=(64,), packs=False, splits_kv_multi_query=False)
PER_TOKEN = AttentionBackend("kernel", tile_rows=(64,), per_token=True)


@pytest.mark.parametrize(
    ("backend", "heads", "kv_heads", "query", "passes", "rows"),
    [
        (FA3, 32, 4, [1, 16, 17, 33], [1, 1, 2, 3], [64, 128, 128, 128]),
        (FA3_D64, 64, 8, [24, 25], [1, 2], [192, 192]),
        (FLASHINFER, 8, 1, [1, 2, 3, 8, 9, 17], [1, 1, 1, 1, 1, 2], [16, 16, 64, 64, 128, 128]),
        (TRTLLM_GEN, 5, 1, [1, 2, 25, 26], [1, 1, 1, 2], [8, 16, 128, 128]),
        (TRITON, 8, 1, [1, 2, 3, 5], [1, 1, 2, 3], [16, 16, 16, 16]),
        (FA2, 8, 1, [1, 2, 64, 65], [1, 8, 8, 16], [64, 64, 64, 64]),
        (PER_TOKEN, 128, 1, [1, 2, 4], [2, 4, 8], [64, 64, 64]),
    ],
)
def test_passes_and_rows(backend, heads, kv_heads, query, passes, rows):
    found = tile_passes(backend, heads, kv_heads, np.array(query, dtype=float))
    assert found.passes.tolist() == passes
    assert found.rows.tolist() == rows


def test_only_several_tokens_lose_the_split():
    assert tile_passes(FA2, 8, 1, np.array([1.0, 2.0])).unsplit.tolist() == [False, True]
    assert not tile_passes(FA3, 8, 1, np.array([1.0, 2.0])).unsplit.any()


def test_cliff_of_a_kernel_without_packing_and_split():
    """12 query and 2 KV heads, 256 wide, 8 tokens on an RTX 3090: reported 21x at 32k keys and 27x at 200k, near 5x at 4k."""
    plain, verify = (attention_s("rtx_3090", 1, q, [32_768, 200_000], 12, 2, 256, backend=FA2, floor_scale=0.3) for q in (1, 8))
    assert (verify / plain > 12).all() and (verify / plain < 32).all()
    packed = attention_s("rtx_3090", 1, 8, 200_000, 12, 2, 256, backend=FA3, floor_scale=0.3)
    assert packed < 1.2 * plain[1]


def test_large_batches_hide_the_missing_split():
    one, many = (
        attention_s("a100_sxm_80gb", batch, 4, 65_536, 32, 8, 128, backend=FA2)
        / attention_s("a100_sxm_80gb", batch, 1, 65_536, 32, 8, 128, backend=FA2)
        for batch in (1, 64)
    )
    assert one > 3 * many


def test_draft_tokens_are_free_within_a_tile_and_step_behind_it():
    times = attention_s("h100_sxm", 16, [1, 8, 9, 16, 17], 32_768, 32, 4, 128)
    assert times[1] < 1.10 * times[0]
    assert times[3] < 1.35 * times[0]
    assert times[4] > 1.15 * times[3]


def test_mla_with_all_heads_has_no_free_rows():
    times = mla_s("h200_sxm", 32, [1, 2, 4], 16_384, 128)
    assert times[1] > 1.6 * times[0] and times[2] > 3.0 * times[0]


def test_blackwell_reads_the_cache_twice_for_32_mla_heads():
    times = mla_s("b200_sxm", 64, 1, 32_768, np.array([16, 32, 64]), engine="tensorrt_llm")
    assert times[1] > 1.2 * times[0] and times[1] > times[2]
