"""Finds a small language model that could draft for a target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.model import load_model
from specadvisor.model.architecture import Architecture

# A drafter above this share of the target costs more than it can save (2601.11580: 12.5% of a 70B, 37.5% of an 8B).
LARGEST_SHARE = 0.25


def load_small(source: Any) -> Architecture:
    """The architecture of a draft model: whatever ``load_model`` takes (path, shipped name, loaded model)."""
    if isinstance(source, Mapping):
        raise InputError("drafter", "a parsed config", "a path, a shipped model name or a loaded model for a draft model")
    return load_model(source)


def sibling(model: Architecture) -> Architecture | None:
    """The smallest shipped model with the vocabulary of ``model`` and at most a quarter of its parameters.

    Both the active and the resident ones: a small mixture of experts may weigh more than the target.
    """
    for path in (path for path, vocab, _ in _shipped() if vocab == model.vocab):
        small = _loaded(path)
        if (
            small.active_parameters <= LARGEST_SHARE * model.active_parameters
            and small.total_parameters <= LARGEST_SHARE * model.total_parameters
        ):
            return small
    return None


@cache
def _loaded(path: str) -> Architecture:
    return load_model(path)


@cache
def _shipped() -> tuple[tuple[str, int, int], ...]:
    """(path, vocabulary, width squared x layers) of every shipped model config, smallest first."""
    found: list[tuple[str, int, int]] = []
    for path in sorted((profiles_dir() / "models").rglob("*.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        text = config.get("text_config") or config
        vocab = text.get("vocab_size") or config.get("vocab_size")
        if vocab and text.get("hidden_size"):
            found.append((str(path), int(vocab), text["hidden_size"] ** 2 * int(text.get("num_hidden_layers") or 1)))
    return tuple(sorted(found, key=lambda item: item[2]))
