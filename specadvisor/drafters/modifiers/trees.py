"""Draft trees as modifiers: a stated shape, or a size chosen on the cost curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.drafters.modifiers.adaptive import choose, flat_survival, per_k
from specadvisor.drafters.modifiers.base import Modifier
from specadvisor.drafters.tree import Tree, parse_tree, tree_survival
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray
from specadvisor.step.time import StepTime

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.drafters.round import Load, Round
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment

BEAM_KINDS = ("draft_model", "eagle", "eagle2", "eagle3", "eagle3_1", "mtp", "hydra", "medusa")
MARGINAL_KINDS = ("dflash", "dflash2", "dspark", "domino", "p_eagle", "pard")


@dataclass(frozen=True)
class TreeDrafting(Modifier):
    """EAGLE-2/3 and Medusa trees (``topk4/steps4/tokens8``), DDTree on block drafters (``ddtree/steps15/tokens22``).

    Price: topk rows in every drafting pass after the first, ``tokens`` verified. Acceptance: AL = 1 + sum over verified nodes
    of P(path accepted); see ``tree_survival``.
    """

    id = "tree"
    takes = (
        "topk<width>/steps<depth>/tokens<verified>, such as tree=topk4/steps3/tokens8, for heads and draft models; "
        "ddtree/steps<depth>/tokens<drafted>, such as tree=ddtree/steps15/tokens22, for block drafters"
    )

    @property
    def tree(self) -> Tree:
        shape = parse_tree(self.value)
        if shape is None:
            raise InputError("tree", self.value, self.takes)
        return shape

    def check(self, drafter: Drafter) -> None:
        kinds = MARGINAL_KINDS if self.tree.best_first else BEAM_KINDS
        if drafter.kind not in kinds:
            raise InputError("tree", self.value, f"a tree of this form for {', '.join(kinds)}; the drafter is {drafter.kind}")

    def drafter(self, drafter: Drafter) -> Drafter:
        limit = min(drafter.k_max, self.tree.steps) if self.tree.best_first else self.tree.steps
        return replace(drafter, tree=self.tree, k_max=limit)


@dataclass(frozen=True)
class SequoiaTree(Modifier):
    """Sequoia (2402.12374): the size of the tree follows the hardware; here the best of a few sizes at every point.

    Nodes are taken best first under the drafter's rank probabilities, depth k, width 8: so many rows run in every drafting
    pass after the first.
    """

    id = "sequoia"
    excludes = "budget"

    SIZES = (4, 8, 16, 24, 32, 48, 64)
    WIDTH = 8

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """Chains that can grow into trees."""
        if drafter.tree:
            return "sequoia chooses the tree itself; drop the other one"
        if drafter.kind not in (*BEAM_KINDS, *MARGINAL_KINDS):
            return f"{drafter.kind} has no candidates to branch into"
        return None

    def round(self, current: Round, drafter: Drafter, deployment: Deployment, load: Load, survival: FloatArray | None) -> Round:
        curve = flat_survival(load.k, load.accepted) if survival is None else np.asarray(survival, dtype=float)
        options = []
        for size in self.SIZES:
            options.append((np.full_like(load.k, float(size)), per_k(load, partial(_length, curve, size))))
        return choose(replace(current, draft=current.draft + self._wider(drafter, deployment, load)), deployment, load, options)

    def _wider(self, drafter: Drafter, deployment: Deployment, load: Load) -> StepTime:
        """What drafting takes longer for ``WIDTH`` rows a pass; nothing for block drafters, whose one pass gives them all."""
        if drafter.kind in MARGINAL_KINDS:
            return StepTime()
        wide = replace(drafter, tree=Tree(self.WIDTH, steps=drafter.k_max, tokens=max(self.SIZES)))
        placed = drafter.placed(deployment)
        return wide.draft(placed, load).draft + drafter.draft(placed, load).draft.scaled(-1.0)


def _length(curve: FloatArray, size: int, k: int) -> float:
    tree = Tree(topk=SequoiaTree.WIDTH, steps=k, tokens=size, best_first=True)
    return 1.0 + float(np.sum(tree_survival(curve[:k], tree)))
