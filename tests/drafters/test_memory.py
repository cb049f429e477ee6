"""What a drafter holds on the GPU: weights, caches, states."""

from __future__ import annotations

import pytest

from specadvisor.drafters import load_drafter
from specadvisor.hardware import load_gpu
from specadvisor.model import load_model
from specadvisor.serving import load_engine
from specadvisor.step import Deployment, resident

# vLLM: the k drafts that are verified and the num_lookahead_tokens of config/vllm.py. SGLang: twice max(topk * steps, verified
# tokens), less the one token of plain decoding. Elsewhere what is verified.
HELD = {
    "vllm": {
        "eagle3": 4 + 4, "mtp": 4 + 4, "draft_model": 4 + 4, "pard": 4 + 4, "p_eagle": 4 + 4, "dflash": 4 + 5,
        "dflash2": 4 + 5, "dspark": 4 + 4, "ngram": 4, "suffix": 4, "medusa": 4,
    },
    "sglang": {"eagle3": 2 * 5 - 1, "dflash": 2 * 5 - 1, "dspark": 2 * 5 - 1, "domino": 2 * 5 - 1, "ngram": 2 * 5 - 1},
    "llama_cpp": {"eagle3": 4, "dflash": 4, "draft_model": 4, "lookahead": 30 * 4, "token_recycling": 79},
}  # fmt: skip


@pytest.mark.parametrize("small", ["qwen3-0.6b", "gemma-4-e4b"])
def test_a_draft_model_holds_all_of_its_weights(small: str) -> None:
    drafter = load_drafter(f"draft_model:{small}", load_model("gemma-4-26b-a4b"))
    assert drafter.resident_bytes == pytest.approx(load_model(small).weight_bytes, rel=0.01)


@pytest.mark.parametrize(("engine", "kind", "slots"), [(e, kind, n) for e, held in HELD.items() for kind, n in held.items()])
def test_slots_beyond_the_accepted_tokens_follow_the_engine(engine: str, kind: str, slots: float) -> None:
    model = load_model("deepseek-v3" if kind == "mtp" else "qwen3-8b")
    assert load_drafter(kind, model, engine).held_slots(load_engine(engine), 4) == slots


def test_a_tree_holds_the_slots_of_its_beam() -> None:
    drafter = load_drafter("eagle3", load_model("qwen3-8b"), "sglang", tree="topk4/steps4/tokens8")
    assert drafter.held_slots(load_engine("sglang"), 4) == 2 * 4 * 4 - 1


def test_a_draft_model_with_recurrent_layers_holds_its_states() -> None:
    """Qwen3.5-27B: 48 layers of 48 heads x 128 x 128 float32 and 3 inputs of 10,240 channels in 16 bit."""
    small = load_model("qwen3.5-27b")
    deployment = Deployment(load_model("qwen3.5-397b-a17b"), load_gpu("b300_sxm"), load_engine("vllm"), tp=4)
    drafter = load_drafter("draft_model", deployment.model, config=small).on(deployment)  # type: ignore[arg-type]
    plain, loaded = resident(deployment), resident(deployment, drafter)
    state = 48 * (48 * 128 * 128 * 4 + 2 * 3 * 10_240) / 4
    assert loaded.state_bytes_per_slot - plain.state_bytes_per_slot == pytest.approx(state)
