from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.hardware import datasheet
from specadvisor.serving import graphs, load_engine

VLLM_LARGEST = {0: (512, 1024), 1: (256, 512), 2: (168, 336), 3: (128, 256), 4: (100, 202), 7: (64, 128), 15: (32, 64)}


@pytest.mark.parametrize(("k", "largest"), VLLM_LARGEST.items())
def test_vllm_full_graphs_reach_these_batches(k: int, largest: tuple[int, int]) -> None:
    vllm = load_engine("vllm")
    for gpu, batch in zip(("h100_sxm", "b200_sxm"), largest, strict=True):
        assert vllm.graph_ceiling(datasheet(gpu), 1, k + 1) == batch * (k + 1)


def test_vllm_pads_requests_to_the_grid_and_nothing_above_it() -> None:
    vllm, gpu = load_engine("vllm"), datasheet("h100_sxm")
    assert vllm.graph_tokens([1, 3, 9, 129], 4, gpu).tolist() == [4, 16, 40, 516]
    assert vllm.graph_tokens(3, 1, gpu) == 4


def test_sglang_batches_by_memory_and_ranks_cut_to_48() -> None:
    sglang = load_engine("sglang")
    for gpu, tp, default, raised in (
        ("rtx_4090", 1, 48, 48),
        ("h100_sxm", 1, 48, 256),
        ("h100_sxm", 8, 48, 512),
        ("t4", 1, 8, 8),
    ):
        assert sglang.graph_ceiling(datasheet(gpu), 1, 4, tp=tp) == 4 * default
        assert sglang.graph_ceiling(datasheet(gpu), 1, 4, max_requests=2048, tp=tp) == 4 * raised
    padded = sglang.graph_tokens([7, 9, 33, 35, 47], 4, datasheet("h100_sxm")) / 4
    assert padded.tolist() == [7, 10, 40, 40, 48]


def test_engines_without_padding_and_without_graphs() -> None:
    gpu = datasheet("rtx_3090")
    assert load_engine("llama_cpp").graph_tokens([3, 5], 4, gpu).tolist() == [12, 20]
    assert np.isinf(load_engine("llama_cpp").graph_ceiling(gpu, 1, 4))
    assert load_engine("transformers").graph_ceiling(gpu, 1, 4) == 0
    assert load_engine("tensorrt_llm").graph_tokens([3, 9, 129], 2, datasheet("h100_sxm")).tolist() == [8, 32, 258]


@given(st.integers(1, 33), st.sampled_from([8, 256, 1024]), st.sampled_from([512, 1024]))
def test_vllm_grid_ascends_within_the_ceiling(query: int, requests: int, ceiling: int) -> None:
    grid = graphs.vllm_grid(query, requests, 8192, ceiling)
    assert np.all(np.diff(grid) > 0) and grid[0] == 1
    assert grid[-1] <= requests and grid[-1] * query <= ceiling


@given(st.integers(1, 600), st.integers(1, 33))
def test_padding_never_shrinks_a_batch_and_broadcasts(batch: int, query: int) -> None:
    tokens = load_engine("vllm").graph_tokens(np.full((2, 1), batch), np.full((1, 3), query), datasheet("h100_sxm"))
    assert tokens.shape == (2, 3) and np.all(tokens >= batch * query) and np.all(tokens % query == 0)
