"""Draft trees: shapes as engines write them, and acceptance counted node by node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.drafters import Tree, parse_tree, tree_survival
from specadvisor.drafters.tree import recall
from specadvisor.errors import InputError


def chain(alpha: float, k: int) -> np.ndarray:
    return alpha ** np.arange(1.0, k + 1)


def length(survival: np.ndarray) -> float:
    return 1.0 + float(survival.sum())


def test_parsing() -> None:
    assert parse_tree("") is None and parse_tree("chain") is None
    assert parse_tree("topk1/steps3/tokens4") is None
    assert parse_tree("topk4/steps4/tokens8") == Tree(4, 4, 8)
    ddtree = parse_tree("ddtree/steps15/tokens22")
    assert ddtree is not None and ddtree.best_first and str(ddtree) == "ddtree/steps15/tokens22"
    assert float(ddtree.verified(15)) == 23


@pytest.mark.parametrize(
    "text",
    [  # the last three: more nodes than the width offers, and digits of another script
        "topk4",
        "topk4/steps0/tokens8",
        "topk0/steps3/tokens4",
        "4/4/8",
        "topk4/steps4/tokens1",
        "topk2/steps2/tokens8",
        "topk1/steps3/tokens5",
        "topk\u0664/steps4/tokens8",
    ],
)
def test_bad_shapes(text: str) -> None:
    with pytest.raises(InputError):
        parse_tree(text)


def test_a_tree_of_one_candidate_is_the_chain() -> None:
    s = np.array([0.8, 0.6, 0.5])
    assert tree_survival(s, Tree(1, 3, 4)) == pytest.approx(s)


def test_one_level_counts_its_candidates() -> None:
    survival = tree_survival(np.array([0.6]), Tree(4, 1, 5))
    assert survival == pytest.approx([1 - 0.4 * 4**-0.37])


def test_full_tree_multiplies_recalls() -> None:
    survival = tree_survival(chain(0.6, 2), Tree(2, 2, 7))
    wide = float(recall(0.6, 2))
    assert survival == pytest.approx([wide, wide**2])


@pytest.mark.parametrize(("width", "published"), [(1, 2.22), (2, 2.55), (4, 2.82), (8, 3.04)])
def test_recall_law_reproduces_the_table_it_was_read_from(width: int, published: float) -> None:
    """In sample: SPEED-Bench Table 9, depth 3, one alpha for the four widths."""
    assert 1 + sum(float(recall(0.613, width)) ** j for j in (1, 2, 3)) == pytest.approx(published, rel=0.01)


def test_published_tree_gain_out_of_sample() -> None:
    """SpecBundle: depth-3 chain 2.25 against a 21-node tree of width 4: 2.92."""
    assert length(chain(0.622, 3)) == pytest.approx(2.25, abs=0.01)
    assert length(tree_survival(chain(0.622, 3), Tree(4, 3, 21))) == pytest.approx(2.92, rel=0.08)


def test_eagle2_tree_gain_out_of_sample() -> None:
    """EAGLE-2 Table 5, Vicuna-7B: a chain 3.20, the 60-node tree of width 10 and depth 6 3.94 (paper: +0.6 to 0.8)."""
    s = chain(0.724, 6)
    assert length(s) == pytest.approx(3.20, abs=0.05)
    gain = length(tree_survival(s, Tree(10, 6, 60))) - length(s)
    assert 0.3 < gain < 1.6


@given(alpha=st.floats(0.05, 0.95), width=st.integers(1, 8), steps=st.integers(1, 6), tokens=st.integers(2, 64))
def test_more_nodes_never_accept_less(alpha: float, width: int, steps: int, tokens: int) -> None:
    s = chain(alpha, steps)
    small, large = (tree_survival(s, Tree(width, steps, n, best_first=True)) for n in (tokens, tokens + 1))
    assert length(large) >= length(small) - 1e-12
    assert np.all(small <= 1.0) and np.all(np.diff(small) <= 1e-12)
    assert length(small) <= steps + 1
