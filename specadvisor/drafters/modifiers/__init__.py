"""Modifiers of cost or acceptance that compose with any drafter they are legal with."""

from specadvisor.drafters.modifiers.base import Modifier
from specadvisor.drafters.modifiers.registry import MODIFIERS, parse_modifier

__all__ = ["MODIFIERS", "Modifier", "parse_modifier"]
