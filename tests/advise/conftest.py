from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.hardware import load_gpu
from specadvisor.model import load_model

TESTS = Path(__file__).parents[1]
EAGLE3_32B = TESTS / "data" / "drafter_configs" / "qwen3-32b-eagle3.json"
SWEEPS = TESTS.parent / "benchmarks" / "data" / "sweeps" / "dev.csv"


@pytest.fixture(scope="session")
def small() -> Advisor:
    """An 8B model with room to spare."""
    return Advisor("qwen3-8b", "h200_sxm")


@pytest.fixture(scope="session")
def tight() -> Advisor:
    """A 32B model in 16 bit on a card it nearly fills."""
    return Advisor("qwen3-32b", "h100_96gb")


def faster(name: str, factor: float):
    """The GPU ``name`` with ``factor`` times the bandwidth and peaks, and the same kernel parameters."""
    gpu = load_gpu(name)
    peaks = {key: value * factor for key, value in gpu.peaks.items()}
    return replace(gpu, memory_bytes_per_s=gpu.memory_bytes_per_s * factor, peaks=peaks)


def model_file(name: str) -> str:
    path = TESTS / "data" / "model_configs" / name
    assert load_model(str(path))
    return str(path)
