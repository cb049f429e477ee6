"""The whole path of ``calibrate`` against stand-in libraries: real compiler, real bindings, invented times."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from stand_in_process import StandIn


def test_a_full_run_writes_profile_and_rows(stand_in: StandIn, tmp_path: Path) -> None:
    done = stand_in.command("--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "h200_sxm.json").read_text())
    assert profile["gpu"] == "stand_in"
    assert profile["conditions"]["stand_in"] is True
    entries = {(e["operator"], e["format"]): e for e in profile["entries"]}
    assert {("gemm", "bf16"), ("gemm", "fp8"), ("gemm", "fp8_block"), ("attention", "bf16"), ("attention", "fp8")} <= set(
        entries
    )
    # the stand-in's products follow t0 = 3 us, tk = 0.2 us, 80% of the bandwidth, 70% of the peak: the fit finds them again
    found = entries[("gemm", "bf16")]["parameters"]
    assert found["t0_s"] == pytest.approx(3e-6, rel=0.4)
    assert found["em"] == pytest.approx(0.8, rel=0.05)
    assert found["ec"] == pytest.approx(0.7, rel=0.15)
    assert entries[("gemm", "bf16")]["error"]["median"] < 0.05
    # our own attention kernel is no engine's: whoever asks for an engine gets it as a sibling
    assert entries[("attention", "bf16")]["engine"] == "any"

    with (tmp_path / "h200_sxm.csv").open() as file:
        rows = list(csv.DictReader(file))
    products = [r for r in rows if r["operator"] == "stand_in_gemm" and r["auto"] == "1" and r["format"] == "bf16"]
    assert {(r["n"], r["k"]) for r in products} >= {("3072", "4096"), ("4096", "16384")}
    assert {128, 129, 512, 513} <= {int(r["m"]) for r in products}
    assert all(int(r["sets"]) * int(r["n"]) * int(r["k"]) * 2 >= 5 * (50 << 20) for r in products)
    attention = [r for r in rows if r["operator"] == "stand_in_attention"]
    assert {r["head_dim"] for r in attention} == {"64", "128", "256"}
    assert {r["page_size"] for r in attention} == {"0", "16"}
    assert {int(r["query_tokens"]) * int(r["heads"]) // int(r["kv_heads"]) for r in attention} >= {1, 16, 64, 128, 512}
    assert any(r["splits"] == "1" and r["auto"] == "0" for r in attention)
    assert any(int(r["splits"]) > 1 for r in attention)


def test_default_destination_is_refused_before_measuring(stand_in: StandIn) -> None:
    done = stand_in.command("--quick")
    assert done.returncode == 2
    assert "stand-in" in done.stderr
    assert not stand_in.saved()


def test_user_folder_is_refused_through_out_too(stand_in: StandIn) -> None:
    done = stand_in.command("--quick", "--out", str(stand_in.home / "kernels" / "mine.json"))
    assert done.returncode == 2
    assert not stand_in.saved()


def test_a_real_profile_is_not_overwritten_by_invented_times(stand_in: StandIn, tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "profiles" / "kernels" / "h200_sxm.json"
    (tmp_path / "h200_sxm.json").write_bytes(shipped.read_bytes())
    done = stand_in.command("--quick", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "profile of h200_sxm; it stays as it is" in done.stderr
    assert (tmp_path / "h200_sxm.json").read_bytes() == shipped.read_bytes()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture(scope="module")
def quick_run(stand_in_libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quick")
    done = StandIn(stand_in_libraries, folder / "home").command("--quick", "--gemm", "bf16", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_rows_of_a_stand_in_cannot_be_fitted_later(stand_in: StandIn, quick_run: Path) -> None:
    done = stand_in.command("--from-measurements", str(quick_run / "h200_sxm.csv"), "--gpu", "h200_sxm")
    assert done.returncode == 2
    assert "stand_in" in done.stderr
    assert not stand_in.saved()


def test_profile_of_a_stand_in_is_no_gpu(stand_in: StandIn, quick_run: Path) -> None:
    result = stand_in.python(
        "from specadvisor.hardware import load_gpu\nfrom specadvisor.errors import InputError\n"
        f"try:\n    load_gpu({str(quick_run / 'h200_sxm.json')!r}); result = 'loaded'\n"
        "except InputError as error:\n    result = str(error)"
    )
    assert "stand_in" in str(result)


@pytest.mark.parametrize(
    ("capability", "name", "formats"),
    [
        ("80", "NVIDIA A100-SXM4-80GB", ["bf16"]),
        ("90", "NVIDIA H200", ["bf16", "fp8", "fp8_block"]),
        ("89", "NVIDIA L40S", ["bf16", "fp8"]),
        ("100", "NVIDIA B200", ["bf16", "fp8", "mxfp8", "nvfp4"]),
    ],
)
def test_every_format_of_the_gpu_is_checked_and_timed(
    stand_in: StandIn, capability: str, name: str, formats: list[str]
) -> None:
    text = (
        "from specadvisor.calibration import driver, plan, gpu_run\nfrom specadvisor.hardware import load_gpu\n"
        f"plans = [plan.make_plan({capability}, quick=True, formats=[name]) for name in {formats}]\n"
        "products = plan.Plan(tuple(s for p in plans for s in p.sections if s.operator == 'gemm'))\n"
        "with driver.opened() as device:\n"
        f"    run = gpu_run.run_on_gpu(device, load_gpu({name!r}), products, 'vllm', lambda done, what: None, warm_up_s=0.0)\n"
        "result = sorted({r.format for r in run.rows}), run.notes"
    )
    assert stand_in.python(text, STAND_IN_CC=capability, STAND_IN_NAME=name) == [formats, []]


def test_a_gpu_outside_the_catalogue_brings_its_own_facts(stand_in: StandIn, tmp_path: Path) -> None:
    done = stand_in.command(
        "--quick", "--gemm", "bf16", "--out", str(tmp_path), STAND_IN_NAME="NVIDIA Unheard-of 9000", STAND_IN_MEMORY_KHZ="0"
    )
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "unheard_of_9000.json").read_text())
    assert profile["datasheet"]["sm_count"] == 132
    assert profile["datasheet"]["memory"]["gb_per_s"] == pytest.approx(1.1 * 4000, rel=0.02)
    assert profile["datasheet"]["peak_tflops"]["bf16"] == pytest.approx(132 * 1.98e9 * 4096 / 1e12, rel=1e-3)


def test_dry_run_needs_no_driver_for_a_named_gpu(stand_in: StandIn) -> None:
    done = stand_in.command("--dry-run", "--gpu", "h200_sxm", "--format", "csv", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr
    seconds = [float(r["seconds"]) for r in csv.DictReader(done.stdout.splitlines())]
    assert 20 < sum(seconds) < 60
    quick = stand_in.command("--dry-run", "--quick", "--gpu", "h200_sxm", "--format", "csv", LD_LIBRARY_PATH="")
    assert sum(float(r["seconds"]) for r in csv.DictReader(quick.stdout.splitlines())) < 15
