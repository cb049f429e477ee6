"""Trees of drafts: acceptance length of a tree of nodes, and the best tree of a given size.

AL(tree) = 1 + sum over nodes of P(the path to the node is accepted). A node's b-th child is the target's token with
probability recall(b) - recall(b - 1), where recall(w) is the chance that the drafter's w best guesses contain it.
"""

from __future__ import annotations

import numpy as np

from specadvisor.acceptance.survival import Survival
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

# 1 - recall(w) = (1 - recall(1)) * w^-MISS_DECAY: through SPEED-Bench Table 9 (Qwen3-235B with EAGLE-3, depth 3:
# AL 2.22, 2.55, 2.82, 3.04 with 1, 2, 4, 8 branches at every node, recalls .613, .705, .770, .820) within 0.02 of each.
MISS_DECAY = 0.37


def recall(first: float | FloatArray, width: int | FloatArray) -> FloatArray:
    """P(the ``width`` best guesses contain the target's token), from the best guess's own acceptance ``first``."""
    return np.asarray(1.0 - (1.0 - np.asarray(first)) * np.asarray(width, dtype=float) ** -MISS_DECAY)


def best_tree_gain(conditional: FloatArray, nodes: int, width: int = 10) -> FloatArray:
    """Accepted drafts per round, AL - 1, of the best static tree with 1..``nodes`` draft nodes (the root not counted).

    ``conditional`` holds a_1..a_depth along its last axis; leading axes are solved side by side, and the result has
    them and then the number of nodes. Sequoia's dynamic programme (Chen et al. 2024, arXiv 2402.12374) with children
    in the order of their chance: best[d](m) = max over how m nodes are shared among the children of a node at depth d.
    """
    a = np.asarray(conditional, dtype=float)
    below = np.zeros((*a.shape[:-1], nodes + 1))
    for depth in range(a.shape[-1] - 1, -1, -1):
        misses = (1.0 - a[..., depth, None]) * np.arange(1, width + 1) ** -MISS_DECAY
        chance = np.concatenate((a[..., depth, None], misses[..., :-1] - misses[..., 1:]), axis=-1)
        best = np.zeros_like(below)
        for child in range(width - 1, -1, -1):
            # A child with its subtree of y nodes earns chance * (1 + below[y - 1]); the rest goes to later children.
            earned = chance[..., child, None] * (1.0 + below[..., :-1])
            shared = best.copy()
            for y in range(1, nodes + 1):
                shared[..., y:] = np.maximum(shared[..., y:], earned[..., y - 1, None] + best[..., : nodes + 1 - y])
            best = shared
        below = best
    return np.asarray(below[..., 1:])


def tree_length(curve: Survival, nodes: int, depth: int, width: int = 10) -> float:
    """AL of the best static tree of ``nodes`` draft nodes, at most ``depth`` deep and ``width`` wide at a node."""
    if nodes < 1 or depth < 1 or width < 1:
        raise InputError("tree", (nodes, depth, width), "at least one node, level and branch")
    chain = np.concatenate(([1.0], curve.extended(depth)))
    a = np.divide(chain[1:], chain[:-1], out=np.zeros(depth), where=chain[:-1] > 0)
    return 1.0 + float(best_tree_gain(a, nodes, width)[-1])
