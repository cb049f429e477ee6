"""Which rows of the catalogue must not enter a fit, and why: rules, so that nobody picks rows by hand.

Rows left out stay in the catalogue; ``profiles/acceptance/left_out.csv`` lists them with the rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from specadvisor.acceptance.catalogue import Row, known_kind

# Trees of the papers, as (nodes with the root, depth): their lengths enter, converted to a chain's level.
TREE_SHAPES = {"eagle": (26, 5), "eagle2": (60, 6), "eagle3": (60, 8), "medusa": (64, 4), "hydra": (64, 4)}
# Below this many nodes a tree chosen by the drafter's confidence falls short of the best tree (SpecBundle: worse than a
# chain of equal budget), so its length says nothing about a chain.
LEAST_NODES = 16
# Methods without a chain depth: the most tokens a round of the published set-up can accept.
METHOD_DEPTH = {"lookahead": 4, "rest": 10, "token_recycling": 6, "suffix": 8}
# Two printings of one cell may differ by rounding and load; further apart they contradict each other.
SAME_LENGTH = 0.02
COLLAPSE = 0.3


@dataclass(frozen=True, slots=True)
class Rule:
    """``applies(row)`` leaves the row out of the levels, and of the shapes too unless ``keeps_list``."""

    name: str
    reason: str
    applies: Callable[[Row], bool]
    keeps_list: bool = False


def _has(*words: str) -> Callable[[Row], bool]:
    return lambda row: any(word in f"{row.drafter} {row.notes}".lower() for word in words)


def tree_nodes(row: Row) -> int | None:
    """Nodes of the row's tree with the root: as printed, else the paper's; None for a chain or an unknown tree."""
    printed = re.search(r"(?:nodes=|num_draft_tokens=|size )(\d+)", row.tree)
    if printed:
        return int(printed[1])
    named = row.tree in ("static tree", "dynamic tree", "method default tree")
    return TREE_SHAPES[row.kind][0] if named and row.kind in TREE_SHAPES else None


def depth_of(row: Row) -> int | None:
    """The most drafts one round can accept: k, or the depth of the method's published tree."""
    if row.kind in METHOD_DEPTH:
        return METHOD_DEPTH[row.kind] if row.k is None else row.k
    if row.tree and row.kind in TREE_SHAPES and row.k is None:
        return TREE_SHAPES[row.kind][1]
    return row.k


def _above_bound(row: Row) -> bool:
    depth = depth_of(row)
    return row.printed_length is not None and depth is not None and row.printed_length > depth + 1 + 1e-9


RULES = (
    Rule("unknown_kind", "the drafter is none of the product's kinds", lambda row: not known_kind(row)),
    Rule(
        "combined_drafter", "two drafters at work", lambda row: row.kind in ("suffix", "ngram", "rest")
        and any(word in row.drafter.lower() for word in ("eagle", "recycl"))
    ),
    Rule("secondary", "quoted by another source, not checked against the original", lambda row: row.how == "secondary"),
    Rule(
        "tree_length_with_chain_list", "the length was measured with a tree, the list on a chain",
        lambda row: bool(row.tree and row.positions),
    ),
    Rule(
        "condition_not_workload", "measures a condition (context or output length, quantisation, mismatch, a smoke test, a "
        "maximum, the mean of a paper's own task sets), not a workload", lambda row: row.workload is None,
    ),
    Rule("under_trained", "a drafter trained for a smoke test or a short run", _has("5k ", "5k-sample", "short training")),
    Rule(
        "changed_acceptance", "pruned vocabulary or another verification rule",
        _has("rrsw verification", "univer verification", "fr-spec", "block verification", "ft + fr"),
        keeps_list=True,
    ),
    Rule(
        "pretrained_heads", "heads trained with the model from its start say nothing of heads added to a finished one",
        _has("independent mtp heads"), keeps_list=True,
    ),
    Rule(
        "beyond_trained_depth", "a one-step MTP block used for more steps: its acceptance falls off the cliff",
        lambda row: "vanilla mtp" in row.drafter.lower() and (row.k or 0) > 1,
    ),
    Rule(
        "length_above_bound", "more tokens a round than k + 1, which a chain of k cannot emit", _above_bound,
    ),
    Rule(
        "list_of_unknown_kind", "neither the source nor 1 + sum = AL says whether the list is conditional or cumulative",
        lambda row: bool(row.positions) and row.positions_kind == "unknown",
    ),
    Rule("rate_as_range", "the rate is printed as a range", lambda row: row.length is None and "-" in row.rate),
    Rule(
        "rate_undefined", "a rate without its definition (accepted over drafted, alpha, prose)",
        lambda row: row.length is None and not row.positions and "accepted/drafted)" not in row.notes,
    ),
    Rule(
        "list_incomplete", "only some positions are printed and no length",
        lambda row: bool(row.positions) and row.length is None, keeps_list=True,
    ),
    Rule(
        "tree_not_convertible", f"length of a tree of unstated size or of fewer than {LEAST_NODES} nodes",
        lambda row: bool(row.tree) and row.kind not in METHOD_DEPTH and (tree_nodes(row) or 0) < LEAST_NODES,
    ),
    Rule("k_not_stated", "the number of draft tokens is not printed", lambda row: depth_of(row) is None, keeps_list=True),
)  # fmt: skip
DUPLICATES = {
    "conflicting_duplicate": f"the source prints this cell more than once, more than {SAME_LENGTH:.0%} apart",
    "repeated": "the same number is in another row (another load of the source, or a source that copies it)",
}


def reasons() -> dict[str, str]:
    """Every rule's name and reason."""
    return {rule.name: rule.reason for rule in RULES} | DUPLICATES


def left_out(rows: Iterable[Row]) -> dict[str, str]:
    """Row id -> name of the first rule that leaves it out of the levels."""
    rows = list(rows)
    out = {row.id: rule.name for row in rows for rule in reversed(RULES) if rule.applies(row)}
    kept = [row for row in rows if row.id not in out]
    for same in _groups(kept, lambda row: (row.source, *_cell(row))):
        lengths = [row_length(row) for row in same]
        conflict = max(lengths) > min(lengths) * (1 + SAME_LENGTH)
        for row in same if conflict else same[1:]:
            out[row.id] = "conflicting_duplicate" if conflict else "repeated"
    kept = [row for row in kept if row.id not in out]
    for same in _groups(kept, lambda row: (_cell(row), round(row_length(row), 2))):
        out.update({row.id: "repeated" for row in same[1:]})
    return out


# Rules about a row itself; the others ask whether it belongs into the priors.
_NO_CHAIN_CURVE = (
    "unknown_kind", "tree_length_with_chain_list", "length_above_bound", "list_of_unknown_kind", "rate_as_range",
    "rate_undefined", "list_incomplete", "tree_not_convertible",
)  # fmt: skip


def unfit(row: Row) -> str:
    """Why no chain's curve can be fitted to the row; empty if one can."""
    for rule in RULES:
        if rule.name in _NO_CHAIN_CURVE and rule.applies(row):
            return rule.reason
    if row.survival is not None:
        return ""
    if row.tree:
        return "the length of a tree, which is no chain's"
    return "" if row.k else "no list, and no length with its k"


def temperature_pairs(rows: Iterable[Row]) -> list[Row]:
    """Rows whose AL at two temperatures may be compared: those of the levels, and any k or tree as long as it is one."""
    rows = list(rows)
    out = left_out(rows)
    return [row for row in rows if out.get(row.id, "k_not_stated") in ("k_not_stated", "tree_not_convertible") and row.length]


def row_length(row: Row) -> float:
    """AL of a row that the rules keep: printed, from its list, or 1 + k * rate."""
    if row.length is not None:
        return row.length
    assert row.k is not None
    return 1.0 + row.k * float(row.rate)


def _cell(row: Row) -> tuple[object, ...]:
    return (row.target, row.kind, row.drafter, row.k, row.tree, row.dataset, row.category, row.temperature, row.engine)


def _groups(rows: Iterable[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    found: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return [group for group in found.values() if len(group) > 1]
