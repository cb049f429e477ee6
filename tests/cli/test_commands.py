from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import pytest

import specadvisor
from specadvisor.cli.app import COMMANDS, load

RECOMMEND = ("recommend", "--model", "qwen3-8b", "--gpu", "h200_sxm")


def test_version_and_help(run):
    assert run("--version").out == f"specadvisor {specadvisor.__version__}\n"
    text = run("--help").out
    for name, line in COMMANDS.items():
        assert f"{name} " in text
        assert line in " ".join(text.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name):
    outcome = run(name, "--help")
    assert outcome.code == 0
    assert len(outcome.out.splitlines()) > 5
    real = load(name)
    assert real.help


def test_a_model_and_a_gpu_are_enough(run):
    outcome = run(*RECOMMEND)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("qwen3-8b (bf16) on 1 x h200_sxm, vllm")
    assert f"specadvisor {' '.join(RECOMMEND)} --acceptance" in " ".join(outcome.out.split())


def test_json_on_standard_output_is_only_json(run):
    outcome = run(*RECOMMEND, "-c", "1,8", "-d", "eagle3", "--format", "json")
    assert [c["concurrency"] for c in json.loads(outcome.out)["choices"]["eagle3"]] == [1, 8]


def test_csv_of_the_ranking(run):
    rows = list(csv.DictReader(io.StringIO(run(*RECOMMEND, "-c", "8", "-d", "eagle3", "-f", "csv").out)))
    assert {row["k"] for row in rows} >= {"0", "1", "3"}


def test_markdown(run):
    assert "| load | k |" in run(*RECOMMEND, "-c", "8", "-d", "eagle3", "-f", "md").out


def test_a_file_and_figures_with_notes_on_standard_error(run, tmp_path):
    target = tmp_path / "answer.json"
    outcome = run(*RECOMMEND, "-c", "1,8", "-d", "eagle3", "-f", "json", "-o", str(target), "--plot", str(tmp_path / "figures"))
    assert outcome.out == ""
    assert "written to" in outcome.err
    assert json.loads(target.read_text())["schema_version"] == 1
    assert len(list((tmp_path / "figures").glob("*.png"))) == 3


def test_everything_stated(run):
    outcome = run(
        *RECOMMEND, "--tp", "2", "--kv", "fp8", "--weights", "fp8", "-c", "1..64", "-i", "512", "-n", "256",
        "--workload", "coding:0.7,chat:0.3", "--temperature", "0.7", "-d", "eagle3", "--with", "block-verification",
        "-a", "conditional:0.7,0.65,0.6",
        "--anchor", "concurrency=1,k=3,speedup=1.9", "--objective", "goodput", "--max-tpot", "20", "--gpu-price", "2",
        "--train-gpu-hours", "100", "--explain",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    for title in ("Schedule of", "Is training one worth it", "Anchors", "Guidelines at concurrency 64"):
        assert title in outcome.out


def test_explain_traces_components_and_sources(run):
    outcome = run("explain", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-k", "3", "-c", "16")
    for text in ("Time by component", "Guideline 4: each further draft token", "Parameters", "t0 + tk K/1024"):
        assert text in outcome.out
    data = json.loads(run("explain", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-k", "3", "-f", "json").out)
    parts = {row["component"]: row for row in data["components"]}
    total = sum(row["draft_s"] + row["verify_s"] for row in parts.values())
    assert total == pytest.approx(data["round_s"])
    assert all(row["source"] for row in parts.values())


def test_explain_of_no_drafts_is_the_plain_step(run):
    data = json.loads(run("explain", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-k", "0", "-f", "json").out)
    assert data["round_s"] == data["step_s"]
    assert data["throughput_speedup"]["mid"] == 1.0


def test_sweep_is_tidy_csv(run):
    outcome = run(
        "sweep", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-k", "0,3", "-c", "1,8", "--context", "1024,4096"
    )
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert len(rows) == 2 * 2 * 2
    assert rows[0]["drafter"] == "none"


def test_flags_print_settings_and_nothing_else(run):
    outcome = run("flags", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "eagle3", "-c", "8", "--drafter-path", "org/head")
    assert outcome.out.startswith("# vLLM")
    assert '"model": "org/head"' in outcome.out
    assert "not measured" in outcome.err
    sglang = run("flags", "-m", "qwen3-8b", "-g", "h200_sxm", "--engine", "sglang", "-d", "eagle3", "-c", "8").out
    steps, tokens = (
        int(sglang.split(flag)[1].split()[0]) for flag in ("--speculative-num-steps", "--speculative-num-draft-tokens")
    )
    assert tokens == steps + 1


@pytest.mark.parametrize(
    ("command", "item", "says"),
    [
        ("gpus", "h100", "132"),
        ("models", "qwen3-8b", "routed"),
        ("drafters", "eagle-3", "EAGLE-3"),
        ("drafters", "dflash", "vllm >= 0.20 (dflash)"),
        ("drafters", "dflash", "800K samples x 6 epochs"),
        ("drafters", "medusa", "removed in vllm 0.33.0"),
        ("drafters", "hydra", "none"),
    ],
)
def test_lists_and_one_item_in_every_format(run, command, item, says):
    listed = run(command)
    assert listed.code == 0
    assert len(listed.out.splitlines()) > 15
    assert len(json.loads(run(command, "-f", "json").out)["rows"]) > 15
    assert len(list(csv.DictReader(io.StringIO(run(command, "-f", "csv").out)))) > 15
    one = run(command, item)
    assert (says in one.out) or command == "models"
    assert "|" in run(command, item, "-f", "md").out


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, specadvisor; print(sorted({'numpy', 'pandas', 'typer', 'matplotlib', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_plain_recommendation_needs_neither_pandas_nor_matplotlib():
    code = (
        "import sys\nfrom specadvisor.cli.app import main\n"
        "try:\n    main(['recommend', '-m', 'qwen3-8b', '-g', 'h200_sxm'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'pandas', 'matplotlib', 'scipy', 'jinja2', 'cuda', 'huggingface_hub', 'gguf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("re", "recommend"), ("recommend --engi", "--engine"), ("recommend --engine sg", "sglang"),
     ("recommend -g h200", "h200_sxm"),
     ("recommend -m qwen3-8", "qwen3-8b"), ("explain -d eag", "eagle3")],
)  # fmt: skip
def test_the_shell_completes_commands_options_and_names(typed, offered):
    words = f"specadvisor {typed}"
    environment = os.environ | {
        "_SPECADVISOR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    code = "from specadvisor.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert offered in done.stdout.split()
