"""What the user measured shows up: fitted, listed, used in advice, and called old when the driver moves on."""

from __future__ import annotations

import json

import pytest

from specadvisor.calibration import freshness
from specadvisor.data_files import user_dir


@pytest.fixture
def table(tmp_path):
    """Products of one small and one large shape on an H200: the small one stays in L2; one fp8 row is too few."""
    lines = ["operator,format,us,m,n,k,engine,sets"]
    for side in (1024, 8192):
        for m in (1, 2, 4, 8, 16, 32, 64, 128):
            lines.append(f"gemm,bf16,{4 + 2 * side**2 / 4e6 + 2 * m * side**2 / 700e6:.2f},{m},{side},{side},vllm,1")
    lines.append("gemm,fp8,10,1,4096,4096,vllm,64")
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_fitted_table_is_reported_row_by_row_and_then_used(run, table):
    fitted = run("calibrate", "--from-measurements", str(table), "--gpu", "h200_sxm")
    assert fitted.code == 0
    assert "8 read from L2" in fitted.out and "other m" in fitted.out and "assumed" not in fitted.out
    assert "8 of 17 rows used" in fitted.err and "not fitted: gemm fp8" in fitted.err
    listed = json.loads(run("gpus", "h200_sxm", "-f", "json").out)["rows"][0]["kernels"]
    own = [kernel for kernel in listed if kernel["source"] == "user"]
    assert len(own) == 1 and own[0]["provenance"]["table"] == "own.csv" and own[0]["error"]["measured"] is True
    assert {kernel["source"] for kernel in listed} == {"user", "shipped", "family"}
    advice = run("recommend", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "ngram", "-c", "1").out
    assert "your calibration of" in advice


def test_gpus_shows_state_errors_and_provenance_of_every_kernel(run):
    shipped = run("gpus", "h200_sxm").out
    assert "measured" in shipped and "aiconfigurator" in shipped.lower() and "left out: 176 read from L2" in shipped
    sibling = json.loads(run("gpus", "rtx_4090", "-f", "json").out)["rows"][0]["kernels"]
    assert {kernel["source"] for kernel in sibling} == {"family"}
    assert all(kernel["parameters"] and 0 < kernel["error"]["median"] < 1 for kernel in sibling)


@pytest.mark.parametrize("command", [("gpus", "h200_sxm"), ("recommend", "-m", "qwen3-8b", "-g", "h200_sxm", "-d", "ngram")])
def test_an_old_calibration_is_called_so(run, table, monkeypatch, command):
    assert "older than" not in run(*command).err
    run("calibrate", "--from-measurements", str(table), "--gpu", "h200_sxm")
    path = user_dir() / "kernels" / "h200_sxm.json"
    data = json.loads(path.read_text()) | {"conditions": {"driver": "580.1", "measured_on": "2026-01-02"}}
    path.write_text(json.dumps(data))
    monkeypatch.setattr(freshness, "local_driver", lambda: "600.2")
    monkeypatch.setattr(freshness, "local_cublas", lambda: "")
    assert "calibration of 2026-01-02 is older" in run(*command).err


@pytest.mark.parametrize("command", [("gpus", "cpu"), ("recommend", "-m", "qwen3-0.6b", "-g", "cpu")])
def test_a_processor_without_calibration_says_how_to_get_one(run, command):
    outcome = run(*command)
    assert outcome.code == 2 and "specadvisor calibrate --device cpu" in outcome.err


def test_a_plan_needs_no_gpu_when_one_is_named(run):
    assert "nothing was measured" in run("calibrate", "--dry-run", "--gpu", "h200_sxm").err
    assert "nothing was measured" in run("calibrate", "--dry-run", "--gpu", "cpu").err
