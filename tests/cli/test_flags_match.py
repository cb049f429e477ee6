"""What ``flags`` writes is what ``recommend`` says, or a comment tells the difference."""

from __future__ import annotations

import json
import re

import pytest

ASKED = ("-m", "deepseek-v3", "-g", "h200_sxm", "--tp", "8", "-d", "mtp", "-c", "1..32")
WRITTEN = {
    "vllm": r'"num_speculative_tokens": (\d+)',
    "sglang": r"--speculative-num-steps (\d+)",
    "tensorrt_llm": r"max_draft_len: (\d+)",
}
CURVES = {"catalogue": (), "mean": ("-a", "al:2.6@3"), "steep": ("-a", "conditional:0.9,0.6,0.3,0.2")}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("engine", WRITTEN)
def test_the_draft_length_is_that_of_the_schedule(run, engine, curve):
    arguments = (*ASKED, "--engine", engine, *CURVES[curve])
    tiers = json.loads(run("recommend", *arguments, "-f", "json").out)["schedule"]["tiers"]
    text = run("flags", *arguments).out
    k = int(re.search(WRITTEN[engine], text)[1])
    if len(tiers) == 1:
        assert k == tiers[0]["k"]
    elif engine == "tensorrt_llm":
        assert k == tiers[0]["k"] or "written as" in text or "not expressible" in text
    else:
        assert k == max(tier["k"] for tier in tiers)


def test_limits_of_the_question_reach_the_flags(run):
    loose = run("flags", *ASKED, "--objective", "goodput", "--max-tpot", "1000").out
    tight = run("flags", *ASKED, "--objective", "goodput", "--max-tpot", "0.1").out
    assert "speculative" in loose
    assert "no speculation" in tight


@pytest.mark.parametrize(
    ("options", "model"),
    [
        ((), "Qwen/Qwen3-32B"),
        (("--weights", "fp8"), "MODEL"),
        (("--served-model", "/models/mine"), "/models/mine"),
    ],
)
def test_the_served_model_can_be_loaded_or_is_a_placeholder(run, options, model):
    text = run("flags", "-m", "qwen3-32b", "-g", "h100_sxm", "-d", "ngram", "-c", "1", *options).out
    assert f"vllm serve {model} " in text
    assert ("# MODEL: a checkpoint of qwen3-32b in fp8" in text) == (model == "MODEL")


@pytest.mark.parametrize(("model", "tp", "separate"), [("qwen3-8b", "1", True), ("deepseek-v4-flash", "4", False)])
def test_a_dspark_drafter_in_its_own_file_is_named(run, model, tp, separate):
    text = run("flags", "-m", model, "-g", "h200_sxm", "--tp", tp, "-d", "dspark", "-c", "1").out
    config = json.loads(re.search(r"--speculative-config '(.*)'", text)[1])
    assert config["method"] == "dspark" and ("model" in config) == separate


def test_the_tree_that_was_priced_is_written(run):
    tree = ("--with", "tree=topk4/steps3/tokens8", "--with", "draft-window=2048")
    text = run("flags", "-m", "qwen3-8b", "-g", "h100_sxm", "--engine", "sglang", "-d", "eagle3", *tree, "-c", "1,8").out
    written = dict(re.findall(r"--speculative-([a-z-]+) (\d+)", text))
    assert written == {"num-steps": "3", "eagle-topk": "4", "num-draft-tokens": "8", "draft-window-size": "2048"}


def test_an_engine_without_written_settings_is_refused_before_any_advice(run):
    outcome = run("flags", "-m", "qwen3-8b", "-g", "h100_sxm", "--engine", "tensorrt_edge_llm", "-d", "eagle3", "-c", "1")
    assert outcome.code == 2 and outcome.out == ""
    assert "Settings of tensorrt_edge_llm are not written" in outcome.err and "Run eagle3" not in outcome.err
