"""Drafting techniques: what a speculation round runs, what stays in memory, where it is legal, what it costs to own."""

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.registry import FAMILIES, legal_drafters, load_drafter, with_tree
from specadvisor.drafters.round import Round
from specadvisor.drafters.tree import Tree, parse_tree, tree_survival

__all__ = ["FAMILIES", "Drafter", "Round", "Tree", "legal_drafters", "load_drafter", "parse_tree", "tree_survival", "with_tree"]
