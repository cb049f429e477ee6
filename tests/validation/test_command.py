from __future__ import annotations

import json

import pandas as pd
import typer
from typer.testing import CliRunner

from specadvisor.cli.validate import validate

from .conftest import CONFIGS, DATA

app = typer.Typer()
app.command()(validate)


def run(tmp_path, *options: str) -> object:
    table = pd.read_csv(DATA / "dev.csv", dtype=str, keep_default_na=False)
    table[table.case_id == "tr-qwen3-32b-eagle3-mt-bench"].to_csv(tmp_path / "sweeps.csv", index=False)
    return CliRunner().invoke(app, [str(tmp_path / "sweeps.csv"), "--configs", str(CONFIGS[0]), *options])


def test_report_on_stdout_and_predictions_in_a_file(tmp_path) -> None:
    result = run(tmp_path, "-o", str(tmp_path / "predictions.csv"))
    assert result.exit_code == 0, result.output
    assert "k = 3" in result.stdout and "always off" in result.stdout and "predictions written" in result.stderr
    written = pd.read_csv(tmp_path / "predictions.csv")
    first = [
        "case_id",
        "group_id",
        "k",
        "concurrency",
        "drafter_kind",
        "predicted_throughput_speedup",
        "predicted_tpot_speedup",
    ]
    assert list(written.columns[:7]) == first
    assert {"low", "high", "acceptance_source", "chosen_k", "profile_state", "warnings", "reason"} <= set(written.columns)


def test_json_is_versioned_and_complete(tmp_path) -> None:
    content = json.loads(run(tmp_path, "--format", "json").stdout)
    assert content["schema_version"] == 1
    known = content["scores"]["acceptance known"]
    assert known["groups"] == 8 and 0 <= known["regret"]["predicted"]["mean"] < 0.05
    assert "engine: vllm" in content["scores"]


def test_other_formats(tmp_path) -> None:
    assert run(tmp_path, "--format", "md", "--no-slices").stdout.startswith("**Regret: all**")
    assert run(tmp_path, "--format", "csv").stdout.startswith('"section","policy"')
