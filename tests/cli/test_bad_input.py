"""One clear line, exit code 2, nothing written."""

from __future__ import annotations

import json

import pytest

from specadvisor.data_files import profiles_dir

MODEL = ("-m", "qwen3-8b")
GPU = ("-g", "h200_sxm")
EAGLE = (*MODEL, *GPU, "-d", "eagle3")

CASES = {
    "missing file": (("-m", "no/such/config.json", *GPU), "no/such/config.json"),
    "unknown model": (("-m", "qwen9-8b", *GPU), "qwen9-8b"),
    "unknown GPU": ((*MODEL, "-g", "h900"), "h900"),
    "unknown engine": ((*MODEL, *GPU, "--engine", "vlm"), "vllm"),
    "unknown drafter": ((*MODEL, *GPU, "-d", "eagel3"), "eagle3"),
    "unknown weight format": ((*MODEL, *GPU, "--weights", "fp7"), "fp7"),
    "unknown KV format": ((*MODEL, *GPU, "--kv", "fp7"), "fp7"),
    "unknown workload": ((*EAGLE, "--workload", "poetry"), "poetry"),
    "unknown modifier": ((*EAGLE, "--with", "magic"), "magic"),
    "unknown output format": ((*EAGLE, "--format", "xml"), "xml"),
    "acceptance above 1": ((*EAGLE, "-a", "conditional:1.2"), "1.2"),
    "increasing cumulative list": ((*EAGLE, "-a", "cumulative:0.5,0.7"), "never increases"),
    "AL above k + 1": ((*EAGLE, "-a", "al:5@3"), "k + 1"),
    "bare acceptance list": ((*EAGLE, "-a", "0.8,0.6"), "conditional"),
    "acceptance without a drafter": ((*MODEL, *GPU, "-a", "al:2@3"), "eagle3="),
    "tp that does not divide the heads": ((*EAGLE, "--tp", "3"), "divisor"),
    "negative tp": ((*EAGLE, "--tp", "-1"), "-1"),
    "negative concurrency": ((*EAGLE, "-c", "-4"), "-4"),
    "concurrency in words": ((*EAGLE, "-c", "many"), "many"),
    "range downwards": ((*EAGLE, "-c", "8..1"), "8..1"),
    "absurd prompt": ((*EAGLE, "-i", "999999999999"), "999999999999"),
    "negative prompt": ((*EAGLE, "-i", "-5"), "-5"),
    "bad anchor": ((*EAGLE, "--anchor", "concurrency=1"), "concurrency=1"),
    "negative power limit": ((*EAGLE, "--power-limit", "-100"), "-100"),
    "price without hours": ((*EAGLE, "--gpu-price", "2"), "training GPU hours"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_clear_line_and_exit_two(run, tmp_path, name):
    arguments, says = CASES[name]
    target = tmp_path / "out.json"
    outcome = run("recommend", *arguments, "-o", str(target))
    assert outcome.code == 2
    assert outcome.out == ""
    assert says in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("specadvisor: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("k", ["-1", "99", "2.5"])
def test_k_that_cannot_be(run, k):
    outcome = run("sweep", *EAGLE, "-k", k)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1


def test_a_damaged_config(run, tmp_path):
    good = (profiles_dir() / "models" / "qwen3-8b_config.json").read_text()
    cut, wrong, huge = tmp_path / "cut.json", tmp_path / "wrong.json", tmp_path / "huge.json"
    cut.write_text(good[: len(good) // 2])
    wrong.write_text(json.dumps(json.loads(good) | {"hidden_size": "large"}))
    huge.write_text(json.dumps(json.loads(good) | {"num_hidden_layers": -36}))
    for path, says in ((cut, "JSON"), (wrong, "hidden_size"), (huge, "num_hidden_layers")):
        outcome = run("recommend", "-m", str(path), *GPU)
        assert outcome.code == 2
        assert says in outcome.err
        assert len(outcome.err.splitlines()) == 1


def test_usage_errors_are_two_as_well(run):
    assert run("recommend", *MODEL).code == 2
    assert run("recommend", *EAGLE, "--tp", "two").code == 2
    assert run("advise").code == 2


def test_what_does_not_fit_is_an_answer_with_exit_one(run):
    outcome = run("recommend", "-m", "llama-3.1-405b", "-g", "rtx_4090")
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.startswith("specadvisor: does not fit: ")
    assert len(outcome.err.splitlines()) == 1


def test_no_local_gpu_says_what_can_be_passed_instead(run, monkeypatch):
    monkeypatch.setenv("PATH", "")
    outcome = run("recommend", *MODEL, "-g", "auto")
    if outcome.code == 0:
        pytest.skip("this machine has a GPU")
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
