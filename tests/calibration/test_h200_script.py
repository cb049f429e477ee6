"""The prepared script for a GPU machine, run in its small form against the stand-ins."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from stand_in_process import StandIn

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu" / "h200.py"


def test_small_run(stand_in: StandIn, tmp_path: Path) -> None:
    done = stand_in._run([sys.executable, str(SCRIPT), "--out", str(tmp_path), "--small"], {})
    assert done.returncode == 0, done.stderr
    assert "correctness: every kernel matches float64" in done.stdout
    rows = list(csv.DictReader((tmp_path / "verify.csv").open()))
    assert {r["operator"] for r in rows} >= {"stand_in_gemm", "stand_in_attention", "stand_in_memory", "stand_in_launch"}
    attention = [r for r in rows if r["operator"] == "stand_in_attention"]
    assert {r["format"] for r in attention} == {"bf16", "fp8"}
    assert {r["tile_rows"] for r in attention if r["auto"] == "0"} == {"16", "64", "128"}
    assert json.loads((tmp_path / "verify.json").read_text())["gpu"] == "stand_in"
    assert "every time is invented" in (tmp_path / "report.md").read_text()


def test_a_wrong_kernel_ends_the_run(stand_in: StandIn, tmp_path: Path) -> None:
    done = stand_in._run([sys.executable, str(SCRIPT), "--out", str(tmp_path), "--small"], {"STAND_IN_LT_WRONG": "1"})
    assert done.returncode == 1
    assert "float64 reference" in done.stderr
    assert not list(tmp_path.iterdir())
