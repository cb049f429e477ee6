"""Serving engines: the facts that a cost model needs, from ``profiles/engines``."""

from specadvisor.serving.attention import AttentionBackend
from specadvisor.serving.engine import ServingEngine
from specadvisor.serving.facts import Fact, Support, version_key
from specadvisor.serving.load import load_engine

__all__ = [
    "AttentionBackend",
    "Fact",
    "ServingEngine",
    "Support",
    "load_engine",
    "version_key",
]
