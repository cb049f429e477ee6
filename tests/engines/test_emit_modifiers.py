"""Settings of a plan's tree and modifiers: written where the engine has them, else named as not written."""

from __future__ import annotations

from typing import Any

import pytest

from specadvisor.drafters import parse_tree
from specadvisor.drafters.modifiers import MODIFIERS, parse_modifier
from specadvisor.engines import EMITTERS, LaunchPlan, flags

from .test_emit import CHECKERS, SCHEDULE, check_sglang, check_tensorrt_llm

TREE = "topk4/steps3/tokens8"


def plan(kind: str, *modifiers: str, **more: Any) -> LaunchPlan:
    return LaunchPlan(kind, 3, modifiers=tuple(parse_modifier(text) for text in modifiers), **more)


def test_a_tree_is_written_with_its_width_and_nodes_and_without_a_schedule() -> None:
    tree = plan("eagle3", f"tree={TREE}", tree=parse_tree(TREE), schedule=SCHEDULE)
    given = check_sglang(flags("sglang", tree))
    names = ("eagle-topk", "num-steps", "num-draft-tokens")
    assert [given[f"--speculative-{name}"] for name in names] == ["4", "3", "8"] and not given["table"]
    spec = check_tensorrt_llm(flags("tensorrt_llm", tree))["speculative_config"]
    assert (spec["dynamic_tree_max_topK"], spec["max_draft_len"], spec["max_total_draft_tokens"]) == (4, 3, 7)
    assert "draft_len_schedule" not in spec
    for engine in ("vllm", "llama_cpp"):
        assert f"# not written: tree={TREE}: {engine} has no setting" in flags(engine, tree)


@pytest.mark.parametrize(
    ("engine", "kind", "modifier", "setting"),
    [
        ("vllm", "eagle3", "block-verification", '"rejection_sample_method": "block"'),
        ("vllm", "eagle3", "draft-tp=1", '"draft_tensor_parallel_size": 1'),
        ("vllm", "mtp", "head-format=fp8", '"draft_lm_head_quantization": "fp8"'),
        ("vllm", "dspark", "confidence-scheduler", '"enable_adaptive_verification": true'),
        ("sglang", "dflash", "block-verification", "--speculative-use-block-verification"),
        ("sglang", "eagle", "draft-vocab=16000", "--speculative-token-map TOKEN_MAP"),
        ("sglang", "eagle3", "draft-window=2048", "--speculative-draft-window-size 2048"),
        ("tensorrt_llm", "dspark", "confidence-scheduler", "enable_confidence_scheduling: true"),
        ("tensorrt_llm", "mtp", "relaxed-acceptance", "use_relaxed_acceptance_for_thinking: true"),
    ],
)
def test_a_modifier_is_written_in_the_engines_words(engine: str, kind: str, modifier: str, setting: str) -> None:
    text = flags(engine, plan(kind, modifier))
    CHECKERS[engine](text)
    assert setting in text and "not written" not in text
    assert setting not in flags(engine, plan(kind))
    assert ("# TOKEN_MAP: " in text) == ("TOKEN_MAP" in setting)


@pytest.mark.parametrize(
    ("engine", "kind", "modifier", "more"),
    [
        ("vllm", "pard", "block-verification", {}),
        ("vllm", "draft_model", "block-verification", {"foreign_vocabulary": True}),
        ("sglang", "eagle3", "block-verification", {"tree": parse_tree(TREE)}),
        ("sglang", "dspark", "draft-window=2048", {}),
    ],
)
def test_what_the_engine_would_refuse_or_ignore_is_not_written(
    engine: str, kind: str, modifier: str, more: dict[str, Any]
) -> None:
    text = flags(engine, plan(kind, modifier, **more))
    CHECKERS[engine](text)
    assert f"# not written: {modifier}: {engine} has no setting for it with {kind}" in text


@pytest.mark.parametrize("engine", EMITTERS)
@pytest.mark.parametrize("id_", sorted(set(MODIFIERS) - {"tree"}))
def test_no_modifier_is_dropped_silently(engine: str, id_: str) -> None:
    values = {"draft-vocab": "16000", "draft-window": "2048", "draft-format": "fp8", "head-format": "fp8", "draft-tp": "1"}
    with_it = MODIFIERS[id_](values.get(id_, "ngram" if id_ == "combine" else ""))
    text = flags(engine, LaunchPlan("eagle3", 3, modifiers=(with_it,)))
    CHECKERS[engine](text)
    bare = flags(engine, LaunchPlan("eagle3", 3))
    commands = [[line for line in t.splitlines() if not line.startswith("#")] for t in (text, bare)]
    assert (f"# not written: {with_it}: " in text) == (commands[0] == commands[1])


def test_the_reason_is_the_engines() -> None:
    asked = plan("eagle3", "overlap-scheduling", "draft-format=fp8", "confidence-scheduler=0.5", "draft-vocab=16000")
    text = flags("sglang", asked)
    assert "not written: overlap-scheduling: on by default" in text
    assert "not written: draft-format=fp8: the drafter's checkpoint has to be in that format" in text
    assert "not written: draft-vocab=16000: sglang has no setting for it with eagle3" in text
    assert "overlap-scheduling: llama_cpp has no setting" in flags("llama_cpp", asked)
    assert "confidence-scheduler=0.5: vllm has no setting" in flags("vllm", plan("dspark", "confidence-scheduler=0.5"))
