"""Acceptance of trees by node."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specadvisor.acceptance import from_conditional, from_length
from specadvisor.acceptance.tree import best_tree_gain, recall, tree_length
from specadvisor.errors import InputError


def test_recall_meets_speed_bench_table_9() -> None:
    """Qwen3-235B with EAGLE-3, depth 3, 1, 2, 4, 8 branches at every node: AL 2.22, 2.55, 2.82, 3.04."""
    a = from_length(2.22, 3).conditional[:3]
    for width, length in ((1, 2.22), (2, 2.55), (4, 2.82), (8, 3.04)):
        assert 1 + np.cumprod(recall(a, width)).sum() == pytest.approx(length, abs=0.02)


def test_a_tree_as_small_as_a_chain_is_the_chain() -> None:
    curve = from_conditional([0.8, 0.75, 0.7])
    assert tree_length(curve, 3, 3) == pytest.approx(float(curve.acceptance_length(3)))
    assert tree_length(curve, 3, 3, width=1) == pytest.approx(float(curve.acceptance_length(3)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3), st.integers(1, 5))
def test_the_best_tree_is_the_best_of_all_trees(a: list[float], nodes: int) -> None:
    """Against every subset of nodes that is closed under parents."""
    width = 3
    miss = [(1 - x) * np.arange(1, width + 1) ** -0.37 for x in a]
    chance = [np.concatenate(([x], m[:-1] - m[1:])) for x, m in zip(a, miss, strict=True)]
    paths = [p for depth in range(1, len(a) + 1) for p in itertools.product(range(width), repeat=depth)]
    value = {p: float(np.prod([chance[i][w] for i, w in enumerate(p)])) for p in paths}
    # A child is never more likely than its parent, so the most likely nodes form a tree.
    best = sum(sorted(value.values(), reverse=True)[:nodes])
    found = best_tree_gain(np.array(a), nodes, width)
    assert found[-1] == pytest.approx(best)
    assert np.all(np.diff(found) >= -1e-12)


def test_published_trees_against_their_chains() -> None:
    """EAGLE-1 paper: chain conditionals and the length of its 26-node tree; the best static tree comes within 10%."""
    for a, length in (([0.79, 0.74, 0.72, 0.73, 0.67], 3.94), ([0.75, 0.69, 0.65, 0.64, 0.64], 3.81)):
        assert tree_length(from_conditional(a), 25, 5) == pytest.approx(length, rel=0.10)


def test_impossible_trees_are_refused() -> None:
    with pytest.raises(InputError):
        tree_length(from_conditional([0.5]), 0, 3)
