"""Emitted settings, read back by a checker of each engine's schema."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from typing import Any

import pytest
import yaml

from specadvisor.engines import EMITTERS, LaunchPlan, flags
from specadvisor.errors import InputError
from specadvisor.hardware import datasheet
from specadvisor.ids import DRAFTERS, ENGINES
from specadvisor.serving import load_engine

VLLM_METHODS = {"eagle", "eagle3", "mtp", "dflash", "dspark", "draft_model", "ngram", "ngram_gpu", "suffix"}
VLLM_KEYS = {
    "method", "model", "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "parallel_drafting",
    "use_heterogeneous_vocab", "rejection_sample_method", "draft_sample_method", "draft_tensor_parallel_size",
    "enable_adaptive_verification", "draft_lm_head_quantization",
}  # fmt: skip
SGLANG_ALGORITHMS = {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK"}
TRTLLM_TYPES = {"Eagle3", "MTP", "NGram", "DraftTarget", "PARD", "DFlash", "DSpark", "SA"}
TRTLLM_KEYS = {
    "decoding_type", "max_draft_len", "speculative_model", "draft_len_schedule", "num_nextn_predict_layers", "use_dynamic_tree",
    "dynamic_tree_max_topK", "max_total_draft_tokens", "enable_confidence_scheduling", "use_relaxed_acceptance_for_thinking",
    "relaxed_topk", "relaxed_delta",
}  # fmt: skip
LLAMA_TYPES = {"draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", "ngram-simple", "ngram-mod"}
SCHEDULE = ((1, 8, 4), (9, 34, 2), (35, 64, 0))


def options(text: str) -> dict[str, str]:
    """Options of the command in ``text`` (the part after any here-document)."""
    command = text.split("EOF\n")[-1]
    words = shlex.split("\n".join(line for line in command.splitlines() if not line.startswith("#")))
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "-"], strict=True):
        if word.startswith("-"):
            assert word not in found, f"{word} twice"
            found[word] = "" if after.startswith("-") else after
    return found


def document(text: str) -> str:
    found = re.search(r"<<'EOF'\n(.*?)EOF\n", text, re.S)
    return found[1] if found else ""


def check_vllm(text: str) -> dict[str, Any]:
    given = options(text)
    config = json.loads(given.get("--speculative-config", "{}"))
    if config:
        assert set(config) <= VLLM_KEYS and config["method"] in VLLM_METHODS and config["num_speculative_tokens"] > 0
        assert "model" in config or config["method"] in ("mtp", "ngram", "suffix")
    if table := config.get("num_speculative_tokens_per_batch_size"):
        assert table[0][0] == 1 and all(a[1] + 1 == b[0] for a, b in itertools.pairwise(table))
        assert all(0 <= k <= config["num_speculative_tokens"] for *_, k in table)
    return {**given, "config": config}


def check_sglang(text: str) -> dict[str, Any]:
    given = options(text)
    if algorithm := given.get("--speculative-algorithm"):
        assert algorithm in SGLANG_ALGORITHMS
        trio = [f"--speculative-{name}" in given for name in ("num-steps", "eagle-topk", "num-draft-tokens")]
        if algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
            assert all(trio)
            tree = int(given["--speculative-eagle-topk"]) > 1
            chain = int(given["--speculative-num-draft-tokens"]) == int(given["--speculative-num-steps"]) + 1
            assert not (tree and "--speculative-adaptive" in given) and (tree or chain)
    table = json.loads(document(text) or "{}")
    if table:
        steps = [step for slot in table.values() for step in slot["candidate_steps"]]
        assert "1" in table and all(key.isdigit() for key in table) and int(given["--speculative-num-steps"]) in steps
        assert given["--speculative-adaptive-config"] in text.split("<<")[0]
    return {**given, "table": table}


def check_tensorrt_llm(text: str) -> dict[str, Any]:
    given = options(text)
    config = yaml.safe_load(document(text) or "{}")
    if spec := config.get("speculative_config"):
        assert set(spec) <= TRTLLM_KEYS and spec["decoding_type"] in TRTLLM_TYPES and spec["max_draft_len"] > 0
        if schedule := spec.get("draft_len_schedule"):
            longest = spec["max_draft_len"]
            assert schedule[min(schedule)] == longest and all(0 <= k <= longest for k in schedule.values())
            assert list(schedule) == sorted(schedule)
        assert ("disable_overlap_scheduler" in config) == (spec["decoding_type"] in ("DraftTarget", "NGram"))
        assert given["--config"] in text.split("<<")[0]
    return {**given, **config}


def check_llama_cpp(text: str) -> dict[str, Any]:
    given = options(text)
    removed = {"--draft-max", "--draft", "--draft-n", "--draft-min", "--draft-p-min"}
    assert not removed & set(given) and given["-m"]
    if kind := given.get("--spec-type"):
        assert kind in LLAMA_TYPES
        assert ("-md" in given) >= (kind in ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"))
    return given


CHECKERS = {"vllm": check_vllm, "sglang": check_sglang, "tensorrt_llm": check_tensorrt_llm, "llama_cpp": check_llama_cpp}


@pytest.mark.parametrize("engine", EMITTERS)
@pytest.mark.parametrize("kind", DRAFTERS)
def test_every_supported_drafter_passes_the_engines_schema(engine: str, kind: str) -> None:
    for schedule in ((), SCHEDULE):
        plan = LaunchPlan(kind, 4, schedule=schedule, concurrency_max=64, gpu=datasheet("h100_sxm"))
        if load_engine(engine).supports(kind).supported:
            text = flags(engine, plan)
            CHECKERS[engine](text)
            assert text.startswith("# ") and "written for" in text.splitlines()[0]
        else:
            with pytest.raises(InputError, match="Engines that run it"):
                flags(engine, plan)


@pytest.mark.parametrize("engine", EMITTERS)
def test_placeholders_are_explained_and_only_those(engine: str) -> None:
    named = flags(engine, LaunchPlan("eagle3", 4, "org/head", model="org/model.gguf"))
    assert "MODEL" not in named and "DRAFTER" not in named
    text = flags(engine, LaunchPlan("eagle3", 4, model_is="qwen3-32b in fp8"))
    assert "# MODEL: a checkpoint of qwen3-32b in fp8\n# DRAFTER: the eagle3 checkpoint" in text


@pytest.mark.parametrize("engine", EMITTERS)
def test_only_a_bundled_dspark_drafter_goes_without_a_checkpoint(engine: str) -> None:
    assert "DRAFTER: the dspark checkpoint" in flags(engine, LaunchPlan("dspark", 6))
    bundled = flags(engine, LaunchPlan("dspark", 5, bundled=True))
    assert ("DRAFTER" in bundled) == (engine == "llama_cpp"), "llama.cpp takes a drafter as a file of its own"


def test_raised_graph_ceiling_says_what_it_costs() -> None:
    plan = LaunchPlan("ngram", 16, concurrency_max=512, gpu=datasheet("h100_sxm"))
    size = check_vllm(flags("vllm", plan))["--max-cudagraph-capture-size"]
    assert f"# graphs of up to {size} tokens instead of 512 take more memory" in flags("vllm", plan)
    assert "graphs" not in flags("vllm", LaunchPlan("ngram", 16, concurrency_max=4, gpu=datasheet("h100_sxm")))


@pytest.mark.parametrize("engine", EMITTERS)
def test_no_speculation_starts_the_server_without_it(engine: str) -> None:
    for plan in (LaunchPlan("none", 0), LaunchPlan("eagle3", 0)):
        assert "spec" not in CHECKERS[engine](flags(engine, plan)) and "no speculation" in flags(engine, plan)
        assert "--spec" not in flags(engine, plan)


def test_vllm_dynamic_table_and_its_version() -> None:
    plan = LaunchPlan("eagle3", 4, "my drafter", schedule=SCHEDULE, concurrency_max=64, gpu=datasheet("h100_sxm"))
    config = check_vllm(flags("vllm", plan))["config"]
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 4], [9, 34, 2], [35, 1024, 0]]
    assert config["model"] == "my drafter"
    old = LaunchPlan("eagle3", 4, schedule=SCHEDULE, version="0.26.0")
    assert "num_speculative_tokens_per_batch_size" not in check_vllm(flags("vllm", old))["config"]
    assert "vLLM >= 0.27" in flags("vllm", old)
    for kind, dp, why in (("eagle3", 2, "data parallelism ignores it"), ("suffix", 1, "suffix ignores it")):
        text = flags("vllm", LaunchPlan(kind, 4, schedule=SCHEDULE, dp=dp))
        assert "num_speculative_tokens_per_batch_size" not in text and why in text
    assert "captures its graphs in pieces" in flags("vllm", LaunchPlan("pard", 4, schedule=SCHEDULE))


def test_vllm_raises_the_graph_ceiling_where_the_plan_is_above_it() -> None:
    gpu = datasheet("h100_sxm")
    inside, above = (LaunchPlan("mtp", 3, concurrency_max=c, gpu=gpu) for c in (128, 130))
    assert "--max-cudagraph-capture-size" not in check_vllm(flags("vllm", inside))
    assert check_vllm(flags("vllm", above))["--max-cudagraph-capture-size"] == str(136 * 4)
    assert "--max-cudagraph-capture-size" not in flags("vllm", LaunchPlan("mtp", 3, concurrency_max=130, gpu=datasheet("b200")))
    small = check_vllm(flags("vllm", LaunchPlan("mtp", 7, concurrency_max=300, gpu=datasheet("rtx_4090"))))
    assert small["--max-num-seqs"] == "300" and small["--max-num-batched-tokens"] == str(304 * 8)


def test_p_eagle_and_pard_draft_in_parallel_under_vllm() -> None:
    for kind, method in (("p_eagle", "eagle3"), ("pard", "draft_model")):
        config = check_vllm(flags("vllm", LaunchPlan(kind, 7)))["config"]
        assert config["method"] == method and config["parallel_drafting"] is True


def test_sglang_counts_the_root_and_lifts_its_limit_of_48() -> None:
    given = check_sglang(flags("sglang", LaunchPlan("eagle3", 3, concurrency_max=64)))
    assert given["--speculative-num-draft-tokens"] == "4" and given["--max-running-requests"] == "64"
    assert "--max-running-requests" not in flags("sglang", LaunchPlan("eagle3", 3, concurrency_max=48))
    assert check_sglang(flags("sglang", LaunchPlan("dflash", 7)))["--speculative-dflash-block-size"] == "8"
    assert check_sglang(flags("sglang", LaunchPlan("dspark", 7)))["--speculative-dspark-block-size"] == "7"


def test_sglang_adaptive_keys_sit_on_the_graph_grid() -> None:
    plan = LaunchPlan("eagle3", 4, schedule=SCHEDULE, concurrency_max=64, gpu=datasheet("h100_sxm"))
    table = check_sglang(flags("sglang", plan))["table"]
    assert table == {"1": {"candidate_steps": [4]}, "9": {"candidate_steps": [2]}, "33": {"candidate_steps": [0]}}
    assert "always" in flags("sglang", LaunchPlan("dflash", 4, schedule=SCHEDULE))


def test_tensorrt_llm_schedule_counts_up_to_each_batch_size() -> None:
    spec = check_tensorrt_llm(flags("tensorrt_llm", LaunchPlan("eagle3", 4, schedule=SCHEDULE)))["speculative_config"]
    assert spec["draft_len_schedule"] == {8: 4, 34: 2} and spec["max_draft_len"] == 4
    drafting = LaunchPlan("eagle3", 4, schedule=((1, 8, 4), (9, 32, 0), (33, 64, 1)), concurrency_max=128)
    spec = check_tensorrt_llm(flags("tensorrt_llm", drafting))["speculative_config"]
    assert spec["draft_len_schedule"] == {8: 4, 32: 0, 128: 1}
    rising = LaunchPlan("eagle3", 2, schedule=((1, 4, 0), (5, 8, 2)))
    assert "not expressible" in flags("tensorrt_llm", rising)


def test_llama_cpp_uses_the_new_names() -> None:
    given = check_llama_cpp(flags("llama_cpp", LaunchPlan("draft_model", 5, "small.gguf", "big.gguf", concurrency_max=4)))
    assert given == {
        "-m": "big.gguf",
        "-ngl": "999",
        "--parallel": "4",
        "--spec-type": "draft-simple",
        "-md": "small.gguf",
        "--spec-draft-n-max": "5",
    }


def test_bad_plans_and_engines() -> None:
    with pytest.raises(InputError, match="without gaps"):
        LaunchPlan("eagle3", 3, schedule=((1, 4, 3), (6, 8, 2)))
    with pytest.raises(InputError, match="k of 0 or more"):
        LaunchPlan("eagle3", -1)
    for engine in set(ENGINES) - set(EMITTERS):
        with pytest.raises(InputError, match="not written"):
            flags(engine, LaunchPlan("mtp", 1))
    with pytest.raises(InputError, match="removed in vllm"):
        flags("vllm", LaunchPlan("medusa", 3))
    assert '"medusa"' in flags("vllm", LaunchPlan("medusa", 3, version="0.20.0"))
