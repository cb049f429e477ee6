"""CUDA-graph grids: to how many requests an engine pads a decode batch, and above which it runs without a graph.

A speculative step of B requests and k draft tokens runs B*(1+k) query tokens; graphs exist for some B only. Above the
largest one nothing is padded, and every kernel is launched by the host.
Sources: vLLM 0.33.0 (config/vllm.py, config/compilation.py), SGLang 0.5.23 (arg_groups/cuda_graph_hook.py,
memory_hook.py), TensorRT-LLM 1.x (``CudaGraphConfig``, padding on).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from specadvisor.ranges import FloatArray

NO_GRAPH: FloatArray = np.empty(0)


def _steps(top: int) -> list[int]:
    return [n for n in (1, 2, 4) if n <= top] + list(range(8, min(top + 1, 256), 8)) + list(range(256, top + 1, 16))


def vllm_count(requests: int) -> int:
    """The next request count that vLLM captures: 1, 2, 4, by 8 to 256, by 16; 0 for none."""
    small = next((n for n in (0, 1, 2, 4) if n >= requests), None)
    return small if small is not None else -(-requests // 8) * 8 if requests <= 256 else -(-requests // 16) * 16


@lru_cache(maxsize=4096)
def vllm_grid(query_tokens: int, max_requests: int, token_budget: int, ceiling: int) -> FloatArray:
    """Request counts with a captured decode graph, ascending; empty where none fits.

    Captured sizes are tokens: the decode counts 1, 2, 4, 8 ... 248 by 8, 256 ... by 16 times the query length, and the same
    numbers as plain token counts rounded up to a multiple of it; those above the ceiling are dropped. The ceiling is 512
    tokens (1024 on compute capability 10.x), at most 2 * max_requests * query_tokens, at most the token budget of a step.
    """
    wanted = min(max_requests, ceiling)
    top = min(max_requests * query_tokens * 2, ceiling)
    decode = {n * query_tokens for n in [*_steps(wanted), wanted]} if query_tokens > 1 else {max_requests}
    sizes = {size for size in decode if size <= min(top, token_budget)} | set(_steps(min(top, token_budget)))
    if token_budget <= top:
        sizes.add(token_budget)
    rounded = {-(-size // query_tokens) for size in sizes}
    largest = max(sizes, default=0)
    return _ascending({n for n in rounded if n * query_tokens <= largest and n <= max_requests})


@lru_cache(maxsize=256)
def sglang_grid(largest: int, speculating: bool) -> FloatArray:
    """Captured batches up to ``largest``: with speculation 1..8, 10..32 by 2, 40..64 by 4, 72..256 by 8, then by 16."""
    if speculating:
        counts = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, largest + 1, 16)]
    else:
        counts = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32)]
    return _ascending({n for n in counts if n <= largest} | {largest})


@lru_cache(maxsize=256)
def trtllm_grid(largest: int) -> FloatArray:
    """Captured batches up to ``largest``: 1, 2, 4, 8 ... 128 by 8, then by 64."""
    counts = {1, 2, 4, *range(8, 129, 8), *range(192, largest + 1, 64)}
    return _ascending({n for n in counts if n <= largest} | {largest})


def pad(batch: FloatArray, grid: FloatArray) -> FloatArray:
    """``batch`` rounded up to the grid; unchanged above its largest entry."""
    if not len(grid):
        return batch
    position = np.searchsorted(grid, batch)
    return np.where(position < len(grid), grid[np.minimum(position, len(grid) - 1)], batch)


def _ascending(counts: set[int]) -> FloatArray:
    grid = np.asarray(sorted(counts), dtype=float)
    grid.setflags(write=False)
    return grid
