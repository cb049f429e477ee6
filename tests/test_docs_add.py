"""The pages on extending name files and registries that exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("add-a*.md"))
NEW = ("mykind", "myengine", "<")
# What a page calls by its bare name, and the module that has it.
NAMES = {
    "DRAFTERS": "specadvisor.ids", "ENGINES": "specadvisor.ids", "ALIASES": "specadvisor.ids",
    "_KINDS": "specadvisor.drafters.config", "stated_sizes": "specadvisor.drafters.config",
    "EMITTERS": "specadvisor.ids", "supported": "specadvisor.engines.plan",
    "FAMILIES": "specadvisor.drafters.registry", "MODIFIERS": "specadvisor.drafters.modifiers.registry",
    "SequentialDrafter": "specadvisor.drafters.sequential", "BlockDrafter": "specadvisor.drafters.dflash",
    "DraftModel": "specadvisor.drafters.draft_model", "ServingEngine": "specadvisor.serving",
}  # fmt: skip


def test_there_is_a_page_for_each_registry() -> None:
    assert [page.stem for page in PAGES] == ["add-a-drafter", "add-a-gpu", "add-an-engine"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = [
        p for p in re.findall(r"`((?:specadvisor|profiles|tests|docs|benchmarks)/[^`]*)`", text) if not any(n in p for n in NEW)
    ]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
    for module in re.findall(r"python -m (specadvisor[\w.]*)", text):
        assert importlib.util.find_spec(module), module
    for name in set(re.findall(r"`(\w+)(?:\[|\.|`)", text)) & set(NAMES):
        assert hasattr(importlib.import_module(NAMES[name]), name), name
