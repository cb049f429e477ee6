"""Values that once crashed or passed in silence: one line that names the option and the value, exit 2, nothing written."""

from __future__ import annotations

import csv
import io
import json

import pytest

MODEL = ("-m", "qwen3-8b")
GPU = ("-g", "h200_sxm")
RECOMMEND = ("recommend", *MODEL, *GPU, "-d", "eagle3", "-c", "8")
SQUARED = "\u00b2"
DRY = ("calibrate", "--dry-run", "-g", "h100_sxm")

CASES = {
    "tp in words": ((*RECOMMEND, "--tp", "two"), ("--tp", "'two'", "whole number", "--help")),
    "k in words": (("explain", *MODEL, *GPU, "-d", "eagle3", "-k", "abc"), ("--k", "'abc'", "whole number")),
    "alpha in words": (("acceptance", "fit", "--alpha", "x"), ("--alpha", "'x'", "a number", "acceptance fit --help")),
    "k-max too large": (("acceptance", "fit", "--alpha", "0.5", "--k-max", "100"), ("--k-max", "100", "1 to 64")),
    "no model": (("recommend", *GPU), ("--model", "config.json", "recommend --help")),
    "empty model": (("recommend", "-m", "", *GPU), ("model", "''", "specadvisor models")),
    "misspelt command": (("recomend",), ("'recomend'", "Did you mean recommend?")),
    "misspelt subcommand": (("acceptance", "prios"), ("prios", "priors")),
    "misspelt option": ((*RECOMMEND, "--acceptence", "al:2@3"), ("--acceptence", "Did you mean --acceptance")),
    "option without a value": ((*RECOMMEND, "--tp"), ("--tp", "a value after the option")),
    "one word too many": ((*RECOMMEND, "now"), ("now", "recommend --help")),
    "empty plot folder": ((*RECOMMEND, "--plot", ""), ("--plot", "''")),
    "plots that cannot be written": ((*RECOMMEND, "--plot", "/proc/none"), ("plot", "/proc/none")),
    "folder as output": ((*RECOMMEND, "-o", "."), ("--output", "a file")),
    "format of a trace": (("explain", *MODEL, *GPU, "-d", "eagle3", "-k", "1", "-f", "csv"), ("--format", "specadvisor sweep")),
    "two drafters in a trace": (("explain", *MODEL, *GPU, "-d", "eagle3", "-d", "mtp", "-k", "1"), ("one drafter",)),
    "two loads in a trace": (("explain", *MODEL, *GPU, "-d", "eagle3", "-k", "1", "-c", "1,2"), ("--concurrency", "'1,2'")),
    "limit without goodput": ((*RECOMMEND, "--max-tpot", "20"), ("--max-tpot (ms)", "20", "--objective goodput")),
    "negative limit": ((*RECOMMEND, "--objective", "goodput", "--max-tpot", "-1"), ("--max-tpot (ms)", "-1", "above 0")),
    "first token without a prompt": (
        (*RECOMMEND, "--objective", "goodput", "--max-ttft", "100"), ("--max-ttft (ms)", "100", "--input-tokens"),
    ),
    "rows in digits of another script": ((*RECOMMEND, "--with", "draft-vocab=" + 5 * SQUARED), ("draft-vocab", "whole rows")),
    "window in digits of another script": ((*RECOMMEND, "--with", "draft-window=" + 3 * SQUARED), ("draft-window", "keys")),
    "ranks in digits of another script": ((*RECOMMEND, "--with", "draft-tp=" + SQUARED), ("draft-tp", "number of ranks")),
    "stages in digits of another script": ((*RECOMMEND, "--with", "pipeline=" + SQUARED), ("speculative-pipeline", "2 to 64")),
    "k in digits of another script": ((*RECOMMEND, "-a", "al:2@" + SQUARED), ("al:2@", "after @")),
    "a tree of too many nodes": (
        ("recommend", *MODEL, *GPU, "--engine", "sglang", "-d", "eagle3", "--with", "tree=topk2/steps2/tokens64"),
        ("tree", "at most 7 tokens"),
    ),
    "an empty place in a list": ((*RECOMMEND, "-a", "conditional:0.8,,0.7"), ("'' is not a number",)),
    "two lengths at one k": ((*RECOMMEND, "-a", "al:2.2@3", "-a", "al:2.9@3"), ("al:2.9@3", "different k")),
    "two lengths at one k, fitted": (("acceptance", "fit", "--al", "2.2@3", "--al", "2.9@3"), ("2.9@3", "2.2@3")),
    "power beyond the board": ((*RECOMMEND, "--power-limit", "5000"), ("power limit", "5000", "at most 1050")),
    "context below the prompt": ((*RECOMMEND, "--context", "50", "-i", "1000"), ("context", "50", "1000 input tokens")),
    "shares above 1": ((*RECOMMEND, "--workload", "coding:0.7,chat:0.7"), ("workload", "sum to 1")),
    "foreign vocabulary": (
        ("recommend", "-m", "qwen3-32b", *GPU, "-c", "8", "-d", "draft_model:llama-3.2-1b"), ("151936 tokens", "--acceptance"),
    ),
    "a drafter of another engine": ((*RECOMMEND[:-4], "-d", "domino", "-c", "8"), ("domino", "Engines that run it: sglang")),
    "cache of another engine": (
        ("recommend", "-m", "qwen3.5-27b", "-g", "rtx_3090", "--engine", "llama.cpp", "--weights", "q4_k_m", "--kv", "fp8"),
        ("fp8", "q8_0"),
    ),
    "unknown GEMM format": ((*DRY, "--gemm", "foo"), ("foo", "fp8")),
    "calibration of no rank": ((*DRY, "--tp", "0"), ("tp", "0")),
    "ranks that do not divide": ((*DRY, "-m", "qwen3-32b", "--tp", "3"), ("tp", "64 query heads")),
    "address of no cluster": ((*DRY, "--executor", "dask://x"), ("dask://x", "tcp://host:8786")),
    "missing measurements": (("calibrate", "--from-measurements", "/nofile.csv"), ("/nofile.csv", "existing")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line_with_option_value_and_next_step(run, tmp_path, monkeypatch, name):
    arguments, says = CASES[name]
    monkeypatch.chdir(tmp_path)
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1 and outcome.err.startswith("specadvisor: ")
    for part in says:
        assert part in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [("recommend", *MODEL, *GPU), ("explain", *MODEL, *GPU, "-d", "eagle3", "-k", "1"), ("sweep", *MODEL, *GPU),
     ("flags", *MODEL, *GPU), ("gpus",), ("models",), ("drafters",), ("acceptance", "priors"),
     ("acceptance", "fit", "--alpha", "0.5"), ("acceptance", "show")],
)  # fmt: skip
@pytest.mark.parametrize("path", ["", "/proc/none/out.txt"])
def test_output_that_cannot_be_written(run, command, path):
    outcome = run(*command, "-o", path)
    assert outcome.code == 2
    assert "output" in outcome.err.splitlines()[-1]
    assert outcome.out == ""


def test_model_errors_are_short(run):
    outcome = run("recommend", "-m", "qwen9-8b", *GPU)
    assert "Did you mean qwen3-8b" in outcome.err
    assert len(outcome.err) < 300
    assert "hf:acme/Big-7B reads its config" in run("models", "acme/Big-7B").err


@pytest.mark.parametrize(
    ("typed", "name"),
    [("Qwen/Qwen3-32B", "qwen3-32b"), ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("qwen3.6-27b", "qwen3.5-27b"),
     ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"), ("QWEN3-8B", "qwen3-8b")],
)  # fmt: skip
def test_checkpoint_names_find_the_shipped_model(run, typed, name):
    assert json.loads(run("models", typed, "-f", "json").out)["rows"][0]["name"] == name


@pytest.mark.parametrize("names", [("-i", "-n"), ("--input-tokens", "--output-tokens"), ("--isl", "--osl")])
def test_lengths_have_three_spellings(run, names):
    data = json.loads(run(*RECOMMEND, names[0], "1024", names[1], "256", "-f", "json").out)
    assert (data["load"]["input_tokens"], data["load"]["output_tokens"]) == (1024, 256)


def test_a_range_of_k_is_every_one_and_starts_at_zero(run):
    rows = list(csv.DictReader(io.StringIO(run("sweep", *MODEL, *GPU, "-d", "eagle3", "-c", "8", "-k", "0..5").out)))
    assert [(row["drafter"], row["k"]) for row in rows] == [("none", "0"), *(("eagle3", str(k)) for k in range(1, 6))]


def test_a_vocabulary_of_the_heads_own_size_changes_nothing(run):
    sweep = ("sweep", *MODEL, *GPU, "-d", "eagle3", "-c", "8", "-k", "3")
    plain, same = (list(csv.DictReader(io.StringIO(run(*sweep, *more).out))) for more in ((), ("--with", "draft-vocab=32000")))
    assert {**same[0], "drafter": "eagle3"} == plain[0]
    assert "has that many rows already" in " ".join(run(*RECOMMEND, "--with", "draft-vocab=32000").out.split())


def test_several_lengths_at_different_k_are_fitted_together(run):
    sweep = ("sweep", *MODEL, *GPU, "-d", "eagle3", "-c", "8", "-k", "1,5")
    rows = list(csv.DictReader(io.StringIO(run(*sweep, "-a", "al:1.7@1", "-a", "al:2.9@5").out)))
    assert [float(row["acceptance_length"]) for row in rows] == pytest.approx([1.7, 2.9])


def test_anchors_correct_sweeps_and_traces_too(run):
    anchor = ("--anchor", "concurrency=8,k=3,speedup=2.2")
    sweep = ("sweep", *MODEL, *GPU, "-d", "eagle3", "-c", "8", "-k", "3")
    before, after = (
        float(next(csv.DictReader(io.StringIO(run(*sweep, *more).out)))["throughput_speedup"]) for more in ((), anchor)
    )
    trace = json.loads(run("explain", *MODEL, *GPU, "-d", "eagle3", "-k", "3", "-c", "8", *anchor, "-f", "json").out)
    assert after == pytest.approx(before * (2.2 / before) ** 0.8, rel=1e-4)
    assert trace["throughput_speedup"]["mid"] == pytest.approx(after, rel=1e-4)


def test_commands_that_advise_share_their_options(run):
    shared = ("--anchor", "--with", "--kv-pool", "--acceptance", "--osl", "--context")
    for name in ("recommend", "flags", "sweep", "explain"):
        text = run(name, "--help").out
        assert all(option in text for option in shared), name
    for name in ("recommend", "flags"):
        assert all(option in run(name, "--help").out for option in ("--objective", "--max-tpot", "--max-ttft"))


def test_a_foreign_vocabulary_needs_and_takes_a_measured_acceptance(run):
    outcome = run("flags", "-m", "qwen3-32b", *GPU, "-c", "1", "-d", "draft_model:llama-3.2-1b", "-a", "al:3.5@4")
    assert '"use_heterogeneous_vocab": true' in outcome.out


def test_validate_names_rows_it_cannot_use(run, tmp_path):
    table = tmp_path / "sweeps.csv"
    head = "case_id,group_id,target,target_config,gpu,engine,drafter_kind,k,concurrency"
    table.write_text(head + "\n")
    assert "no rows" in run("validate", str(table)).err
    table.write_text(f"{head}\na,a|c1,Qwen3-8B,none.json,h200_sxm,vllm,eagle3,-3,1\n")
    assert "line 2: k is not a whole number" in run("validate", str(table)).err
