"""Families of drafter kinds that share how acceptance runs, and the usual shape of each, fitted to published lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from specadvisor.acceptance.catalogue import Row
from specadvisor.acceptance.least_squares import minimise
from specadvisor.acceptance.lists import shape_lists, usable_lists
from specadvisor.acceptance.shape import RATE, RATE_LOOKUP, SLOPE, KindShape
from specadvisor.ids import DRAFTERS
from specadvisor.ranges import FloatArray

# Hydra and MLP heads see the tokens drafted before them, as sequential drafters do; Medusa's do not. Token recycling has
# candidates after every token: no chance of a match comes first.
FAMILIES = {
    "sequential": ("eagle", "eagle2", "eagle3", "eagle3_1", "mtp", "draft_model", "hydra", "mlp_speculator"),
    "independent heads": ("medusa",),
    "recycled": ("token_recycling",),
    "block": ("dflash", "dflash2", "domino", "p_eagle", "pard"),
    "corrected block": ("dspark",),
    "lookup": ("ngram", "suffix", "rest", "lookahead"),
}
FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}

# Past the depth it was trained for, a drafter's conditional acceptance falls at once. EAGLE-3 heads train on seven
# unrolled steps; their published lists beyond (vLLM pull request 26498, positions 8 to 10) keep 0.78 of the plateau.
TRAINED_DEPTH = {"eagle3": 7, "eagle3_1": 7}
CLIFF = 0.78
# A one-step MTP block used for more steps keeps 0.23 of its first acceptance (FastMTP report: .70, .16, .18).
CLIFF_ONE_STEP = 0.23

# Lists that count as evidence for a family before a kind's own lists outweigh it; and the spread to assume at least.
_FAMILY_LISTS = 2.0
_LEAST_SPREAD = 0.3


def rate_of(kind: str) -> float:
    """How fast the conditionals of a kind reach their plateau."""
    return RATE_LOOKUP if FAMILY_OF[kind] == "lookup" else RATE


def intercept_of(a: FloatArray, rate: float = RATE) -> float:
    """The intercept that fits conditionals a_1..a_n (nan: not printed) best, positions weighted by how often they matter."""
    printed = np.isfinite(a)
    position = np.arange(a.size)
    filled = np.interp(position, position[printed], a[printed])
    before = np.concatenate(([1.0], np.cumprod(filled)[:-1]))
    used = printed & (position < max(3, int(np.sum(before * filled > 0.02))))
    a, before = np.clip(a[used], 1e-3, 1 - 1e-3), before[used]
    weight = np.sqrt(before)
    steps = np.power(rate, position[used])

    def residuals(x: FloatArray) -> FloatArray:
        first, limit = 1 / (1 + np.exp(-x[0])), 1 / (1 + np.exp(-(x[1] + SLOPE * x[0])))
        return np.concatenate(((limit + (first - limit) * steps - a) * weight / 0.03, [x[1] / 2.0]))

    start = float(np.log(a[0] / (1 - a[0])))
    return float(minimise(residuals, np.array([start, 0.0])).x[1])


def fit_shapes(rows: Iterable[Row]) -> dict[str, KindShape]:
    """Every kind's usual shape: its lists' intercepts, one vote per source, drawn to its family's and to flat.

    Families without any printed list take those that lengths at several k make up.
    """
    rows = list(rows)
    listed = {row.kind for row in usable_lists(rows)}
    bare = [kind for members in FAMILIES.values() if listed.isdisjoint(members) for kind in members]
    intercepts: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for found in shape_lists(rows, bare):
        intercepts[found.kind].append((intercept_of(found.conditional, rate_of(found.kind)), found.source))
    shapes = {}
    for kind in DRAFTERS:
        own = intercepts.get(kind, [])
        family = [item for member in FAMILIES[FAMILY_OF[kind]] for item in intercepts.get(member, [])]
        base, _, family_votes = _one_vote_per_source(family)
        if FAMILY_OF[kind] != "lookup":  # a lookup that matched goes on matching: flat is no neutral guess there
            base *= family_votes / (family_votes + 1.0)
        value, spread, votes = _one_vote_per_source(own)
        share = votes / (votes + _FAMILY_LISTS)
        sources = len({source for _, source in own})
        basis = f"{len(own)} lists of {sources} sources, drawn to {len(family)} of its family ({FAMILY_OF[kind]})"
        depth = TRAINED_DEPTH.get(kind)
        shapes[kind] = KindShape(
            kind, round(share * value + (1 - share) * base, 3), round(max(spread, _LEAST_SPREAD), 3), rate_of(kind),
            depth, CLIFF if depth else 1.0, len(own), sources, basis,
        )  # fmt: skip
    return shapes


def _one_vote_per_source(items: Sequence[tuple[float, str]]) -> tuple[float, float, float]:
    """Weighted median and spread, and the number of sources."""
    if not items:
        return 0.0, _LEAST_SPREAD, 0.0
    per_source = Counter(source for _, source in items)
    values = np.array([value for value, _ in items])
    weights = np.array([1.0 / per_source[source] for _, source in items])
    order = np.argsort(values)
    median = float(np.interp(0.5, (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum(), values[order]))
    spread = float(np.sqrt(np.average((values - median) ** 2, weights=weights)))
    return median, spread, float(len(per_source))
