"""What a drafter holds on the GPU: weights, caches, states."""

from __future__ import annotations

import pytest

from specadvisor.drafters import load_drafter
from specadvisor.model import load_model


@pytest.mark.parametrize("small", ["qwen3-0.6b", "gemma-4-e4b"])
def test_a_draft_model_holds_all_of_its_weights(small: str) -> None:
    drafter = load_drafter(f"draft_model:{small}", load_model("gemma-4-26b-a4b"))
    assert drafter.resident_bytes == pytest.approx(load_model(small).weight_bytes, rel=0.01)
