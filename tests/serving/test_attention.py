from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.hardware import datasheet
from specadvisor.serving import AttentionBackend, load_engine

# floor(128 / G) - 1, the rule of guideline 2
RULE = {
    1: 127, 2: 63, 3: 41, 4: 31, 5: 24, 6: 20, 7: 17, 8: 15, 10: 11, 12: 9, 14: 8, 16: 7, 20: 5, 24: 4, 32: 3, 40: 2, 48: 1,
    64: 1, 128: 0,
}  # fmt: skip


@pytest.mark.parametrize(("group", "k"), RULE.items())
def test_the_rule_of_128(group: int, k: int) -> None:
    for whole in (False, True):
        assert AttentionBackend("any", (128,), whole_tokens=whole).free_draft_length(group) == k


def backend(engine: str, gpu: str, head_dim: int = 128, **kwargs: object) -> AttentionBackend:
    return load_engine(engine).attention_backend(datasheet(gpu), head_dim, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("engine", "gpu", "head_dim", "group", "k"),
    [
        ("vllm", "h100_sxm", 64, 8, 23),  # gpt-oss class: 192 rows
        ("vllm", "h100_sxm", 128, 8, 15),
        ("sglang", "rtx_4090", 256, 8, 7),  # FlashInfer FA2: 64 rows at head size 256
        ("llama_cpp", "rtx_3090", 128, 8, 7),
        ("llama_cpp", "rtx_3090", 128, 5, 7),  # five heads occupy eight columns
        ("vllm", "v100_32gb", 128, 8, 1),  # Triton: 16 rows
        ("vllm", "rtx_3090", 128, 8, 0),  # FA2 varlen does not pack
        ("tensorrt_llm", "h100_sxm", 128, 8, 7),
        ("tensorrt_llm", "l40s", 128, 8, 3),
        ("vllm", "b200_sxm", 128, 5, 24),  # whole tokens: floor(128 / 5) = 25
    ],
)
def test_free_draft_length_of_the_kernel_that_runs(engine: str, gpu: str, head_dim: int, group: int, k: int) -> None:
    assert backend(engine, gpu, head_dim).free_draft_length(group) == k


def test_mla_has_no_free_rows_with_all_heads_on_a_rank() -> None:
    flashmla, trtllm = backend("vllm", "h100_sxm", 576, mla=True), backend("vllm", "b200_sxm", 576, mla=True)
    assert flashmla.tiles([1, 2, 3], 128).tolist() == [2, 4, 6]
    assert flashmla.free_draft_length(16) == 3
    assert trtllm.per_token and trtllm.free_draft_length(16) == 0
    assert backend("sglang", "h200_sxm", 576, mla=True, sparse=True).per_token


def test_tiles_by_hand() -> None:
    flat, whole = AttentionBackend("flat", (128,)), AttentionBackend("whole", (128,), whole_tokens=True)
    assert flat.tiles([1, 16, 17, 32, 33], 8).tolist() == [1, 1, 2, 2, 3]
    assert flat.tiles([8, 9], 48).tolist() == [3, 4]  # 8 * 48 = 384 = 3 tiles
    assert whole.tiles([2, 3, 4, 5], 48).tolist() == [1, 2, 2, 3]
    unpacked = AttentionBackend("fa2", (128,), packs=False)
    assert unpacked.tiles([1, 2, 128, 129], 8).tolist() == [1, 8, 8, 16]
    assert AttentionBackend("sparse", (64,), per_token=True).tiles([1, 4], 128).tolist() == [2, 8]
    assert AttentionBackend("triton", (16,), whole_tokens=True, grows_with_group=True).tiles([1, 2, 3], 32).tolist() == [
        1,
        2,
        3,
    ]


def test_waste_and_aligned_lengths() -> None:
    flat = AttentionBackend("flat", (128,))
    assert flat.waste([16, 17, 32], 8) == pytest.approx([0.0, 1 - 136 / 256, 0.0])
    assert flat.aligned_draft_lengths(8, 40) == (15, 31)
    assert flat.aligned_draft_lengths(48, 8) == (1, 4, 7)
    ladder = AttentionBackend("gen", (8, 16, 32, 64, 128), whole_tokens=True)
    assert ladder.tile([1, 2, 3, 16, 40], 8).tolist() == [8, 16, 32, 128, 128]


@given(group=st.integers(1, 160), rows=st.sampled_from([16, 32, 64, 128, 192]), whole=st.booleans(), packs=st.booleans())
def test_identities(group: int, rows: int, whole: bool, packs: bool) -> None:
    kernel = AttentionBackend("any", (rows,), whole_tokens=whole, packs=packs)
    n = np.arange(1, 70)
    tiles = kernel.tiles(n, group)
    assert np.all(np.diff(tiles) >= 0) and np.all(tiles >= 1)
    assert np.all(tiles * rows >= (group * n if packs or group == 1 else n))
    k = kernel.free_draft_length(group)
    if k < 68:
        assert tiles[k] == tiles[0] or k == 0
        assert k + 1 >= len(n) or tiles[k + 1] > tiles[0]
    waste = kernel.waste(n, group)
    assert np.all((waste >= 0) & (waste < 1))
