"""Whole outputs beside the ones kept in ``golden/``: every word the same, every number of the same order.

Numbers move when a kernel profile is fitted anew (other tests hold them); words and layout only when somebody means to.
Write the files anew with ``SPECADVISOR_WRITE_GOLDEN=1 pytest tests/cli/test_golden.py`` and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
FACTOR = 4.0
SMALL = 2.0

CASES = {
    "help.txt": ("--help",),
    "recommend.txt": (
        "recommend", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-a", "conditional:0.75,0.7,0.65,0.6", "-c", "1,8,64",
        "-i", "1024", "-n", "256", "--gpu-price", "2", "--train-gpu-hours", "300",
    ),
    "explain.txt": (
        "explain", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-k", "3", "-c", "8",
        "-a", "conditional:0.75,0.7,0.65,0.6",
    ),
    "gpus_h200_sxm.txt": ("gpus", "h200_sxm"),
    "models_qwen3-8b.txt": ("models", "qwen3-8b"),
    "flags.txt": (
        "flags", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-a", "conditional:0.75,0.7,0.65,0.6", "-c", "8",
        "--drafter-path", "org/head", "--served-model", "org/model",
    ),
}  # fmt: skip


def words(text: str) -> list[str]:
    """The text without its numbers; what sits where between columns depends on their width."""
    return NUMBER.sub("#", text).split()


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def alike(a: float, b: float) -> bool:
    return abs(a - b) <= SMALL or 1 / FACTOR <= a / max(b, 1e-12) <= FACTOR


@pytest.mark.parametrize("name", CASES)
def test_output_is_the_kept_one(run, name):
    outcome = run(*CASES[name])
    assert outcome.code == 0
    kept = GOLDEN / name
    if os.environ.get("SPECADVISOR_WRITE_GOLDEN"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(outcome.out)
    expected = kept.read_text()
    assert words(outcome.out) == words(expected)
    apart = [(a, b) for a, b in zip(numbers(outcome.out), numbers(expected), strict=True) if not alike(a, b)]
    assert apart == []
