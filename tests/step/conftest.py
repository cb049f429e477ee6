from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specadvisor.hardware import load_gpu
from specadvisor.step import Deployment

from .parts import model, plain_engine


@pytest.fixture(scope="session")
def deploy() -> Callable[..., Deployment]:
    """A deployment of the tiny model on an H100; keywords go to ``Deployment`` or, unknown there, to the engine."""
    gpu = load_gpu("h100_sxm")

    def build(*layers: Any, **options: Any) -> Deployment:
        names = set(Deployment.__dataclass_fields__)
        engine = plain_engine(**{k: v for k, v in options.items() if k not in names})
        return Deployment(model(*layers), gpu, engine, **{k: v for k, v in options.items() if k in names})  # type: ignore[arg-type]

    return build
