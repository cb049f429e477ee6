from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specadvisor import kernels
from specadvisor.formats import weight_format
from specadvisor.hardware import load_gpu
from specadvisor.model import load_model
from specadvisor.model.architecture import Architecture
from specadvisor.step.deployment import Deployment

from ..fake_engine import FakeEngine

CONFIGS = Path(__file__).parents[1] / "data" / "drafter_configs"
MakeDeployment = Callable[..., Deployment]


@pytest.fixture(scope="session")
def qwen8b() -> Architecture:
    return load_model("qwen3-8b")


@pytest.fixture(scope="session")
def deepseek() -> Architecture:
    return load_model("deepseek-v3")


@pytest.fixture(scope="session")
def hybrid() -> Architecture:
    return load_model("qwen3.5-27b")


@pytest.fixture
def deploy() -> MakeDeployment:
    """A deployment on one H100 with a fake engine; keywords go to the engine."""

    def make(model: Architecture, tp: int = 1, **engine: object) -> Deployment:
        return Deployment(model, load_gpu("h100_sxm"), FakeEngine(**engine), tp=tp)  # type: ignore[arg-type]

    return make


@pytest.fixture
def count_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every matrix costs its bytes as seconds, once per pass and whatever the rows; nothing else costs anything."""

    def gemm_s(gpu: object, m: object, n_out: float, k_in: float, weight: str = "bf16", *_: object, **__: object) -> object:
        return np.zeros_like(np.asarray(m, float)) + n_out * k_in * weight_format(weight).bytes_per_weight

    def nothing(*arguments: object, **_: object) -> object:
        return np.zeros(np.broadcast(*(np.asarray(a, float) for a in arguments[1:3])).shape)

    monkeypatch.setattr(kernels, "gemm_s", gemm_s)
    monkeypatch.setattr(kernels, "attention_s", nothing)
    monkeypatch.setattr(kernels, "mla_s", nothing)
    monkeypatch.setattr(kernels, "moe_s", nothing)
    monkeypatch.setattr(kernels, "memory_pass_s", lambda gpu, size, **_: np.zeros_like(np.asarray(size, float)))
