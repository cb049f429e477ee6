"""Every entry of the registries is complete, legal somewhere, and on the generated page."""

from __future__ import annotations

from pathlib import Path

import pytest

from specadvisor.drafters import FAMILIES, legal_drafters, load_drafter
from specadvisor.drafters.document import page
from specadvisor.drafters.facts import drafter_facts, engine_facts, modifier_facts, out_of_scope
from specadvisor.drafters.modifiers import MODIFIERS
from specadvisor.hardware import load_gpu
from specadvisor.ids import DRAFTERS, ENGINES, WORKLOADS
from specadvisor.model import load_model
from specadvisor.model.architecture import Architecture
from specadvisor.serving import load_engine
from specadvisor.step.deployment import Deployment

from ..fake_engine import FakeEngine

PAGE = Path(__file__).parents[2] / "docs" / "drafters.md"


def test_every_known_kind_has_a_family() -> None:
    assert tuple(FAMILIES) == DRAFTERS


@pytest.mark.parametrize("kind", DRAFTERS)
def test_family_states_everything(kind: str) -> None:
    facts = drafter_facts(kind)
    assert facts.incomplete() == []
    assert facts.operating


def test_research_families_are_those_that_no_engine_runs() -> None:
    """They are priced by name only, so they are not ranked either."""
    for kind, family in FAMILIES.items():
        assert drafter_facts(kind).research is not family.ranked, kind
        if drafter_facts(kind).research:
            assert not any(load_engine(engine).supports(kind).supported for engine in ENGINES), kind


def test_modifiers_state_everything() -> None:
    assert set(modifier_facts()) == set(MODIFIERS)
    for id_, facts in modifier_facts().items():
        assert facts.incomplete() == [], id_
        assert facts.operating_text or facts.operating_class, id_
        if "factor" in facts.shape:
            assert facts.shape["low"] <= facts.shape["factor"] <= facts.shape["high"]
        assert set(facts.shape["engines"]) <= {"any", *ENGINES}
    for workload in modifier_facts()["draft-vocab"].shape["coverage"]:
        assert workload in {"rows", *WORKLOADS}
    assert "diffusion-llm" in out_of_scope()


def test_incomplete_entries_are_noticed() -> None:
    from dataclasses import replace

    facts = drafter_facts("eagle3")
    for name in ("structure", "cost", "acceptance", "legality"):
        assert replace(facts, **{name: ""}).incomplete() == [name]
    assert replace(facts, sources=()).incomplete() == ["sources"]


def test_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m specadvisor.drafters.document docs/drafters.md"


def test_page_has_a_row_for_each_technique() -> None:
    for name in (*FAMILIES, *MODIFIERS):
        assert f"| `{name}`" in page()


def test_engine_facts_name_known_engines() -> None:
    facts = engine_facts()
    for name, table in facts.items():
        assert table["source"], name
        assert set(table.get("engines", ())) <= set(ENGINES)


def test_default_ranking(qwen8b: Architecture) -> None:
    kinds = [d.kind for d in legal_drafters(qwen8b, FakeEngine())]  # type: ignore[arg-type]
    assert "mtp" not in kinds and {"eagle3", "dflash", "ngram", "draft_model"} <= set(kinds)
    fewer = FakeEngine(unsupported=frozenset({"eagle3", "medusa"}))
    assert {"eagle3", "medusa"}.isdisjoint(d.kind for d in legal_drafters(qwen8b, fewer))  # type: ignore[arg-type]
    assert "mtp" in [d.kind for d in legal_drafters(load_model("deepseek-v3"), FakeEngine())]  # type: ignore[arg-type]


def test_wrong_width_is_a_mismatch(qwen8b: Architecture) -> None:
    foreign = load_drafter("eagle3", load_model("llama-3.1-70b"))
    reason = foreign.legality(qwen8b, FakeEngine())  # type: ignore[arg-type]
    assert reason is not None and "8192" in reason and "4096" in reason


def test_vocabularies_must_agree_where_the_engine_cannot_map_them(qwen8b: Architecture) -> None:
    llama = load_drafter("draft_model:llama-3.2-1b", qwen8b)
    assert llama.legality(qwen8b, FakeEngine(id="sglang")) is not None  # type: ignore[arg-type]
    assert llama.legality(qwen8b, FakeEngine(id="vllm")) is None  # type: ignore[arg-type]


def test_the_sibling_is_the_smallest_model_with_the_vocabulary() -> None:
    drafter = load_drafter("draft_model", load_model("qwen3-32b"))
    assert drafter.resident_bytes == pytest.approx(load_model("qwen3-0.6b").weight_bytes, rel=1e-4)
    assert "assumed" in drafter.assumptions[-1]


def test_usual_shapes_say_that_they_are_assumed(qwen8b: Architecture) -> None:
    for kind in ("eagle3", "dflash", "p_eagle", "medusa", "dspark"):
        assert any("assumed" in text for text in load_drafter(kind, qwen8b).assumptions), kind


def test_usual_eagle3_is_the_published_one(qwen8b: Architecture) -> None:
    """The usual shape for Qwen3-8B is the published config of its head."""
    from .conftest import CONFIGS

    usual, real = load_drafter("eagle3", qwen8b), load_drafter(str(CONFIGS / "qwen3-8b-eagle3.json"), qwen8b)
    assert (usual.layers, usual.inputs, usual.head) == (real.layers, real.inputs, real.head)
    block, published = load_drafter("dflash", qwen8b), load_drafter(str(CONFIGS / "qwen3-8b-dflash.json"), qwen8b)
    assert (block.layers, block.inputs) == (published.layers, published.inputs)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_shipped_model_has_a_ranking(engine: str) -> None:
    """On every engine: drafters load, are legal, say their memory, and price a round."""
    serving = load_engine(engine)
    for name in ("deepseek-v4-flash", "gemma-4-e4b", "gpt-oss-20b", "kimi-k3", "nemotron-3-nano-30b-a3b", "qwen3.5-27b"):
        model = load_model(name)
        deployment = Deployment(model, load_gpu("b200_sxm"), serving)
        for drafter in legal_drafters(model, serving):
            done = drafter.round(deployment, 4.0, 1.0, 1000.0, 1.6)
            total = float(done.draft.total_s + done.overhead.total_s)
            assert 0.0 <= total < 1.0, (name, drafter.name)
            assert float(done.verified_tokens) > 1.0
            assert drafter.on(deployment).resident_bytes >= 0.0
