"""A fit redone from a table knows what the calibration knew, takes no other GPU's rows, and says which line is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specadvisor.calibration import freshness
from specadvisor.calibration.build_profile import build_profile
from specadvisor.calibration.refit import refit
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.calibration.save import save, target_path
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.gpu import Gpu
from specadvisor.kernels import gemm_s

CPU = Gpu("cpu", "Some processor", "cpu", 1, 35e9, 1e10, 2, 1 << 20, {"bf16": 1.05e11}, 0.0, False, 1e9, 3e9, 1.0, 1)
H200 = load_gpu("h200_sxm")
SHAPES = ((4096, 4096), (2048, 8192), (8192, 2048))
CONDITIONS = {"measured_on": "2026-01-02", "device": "NVIDIA H200", "driver": "580.65.06", "cublas": "13.1.0"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def gpu_rows(gpu: Gpu = H200, rows: tuple[int, ...] = (1, 8, 16, 64, 128, 256)) -> list[Row]:
    """Times of the law itself, read from memory."""
    seconds = {(m, n, k): float(gemm_s(H200, m, n, k, "bf16", "vllm")) for n, k in SHAPES for m in rows}
    scale = H200.memory_bytes_per_s / gpu.memory_bytes_per_s
    return [Row("gemm", "bf16", s * 1e6 * scale, "vllm", m=m, n=n, k=k, sets=64) for (m, n, k), s in seconds.items()]


def saved(gpu: Gpu, rows: list[Row], conditions: dict[str, object], listed: bool) -> Path:
    run = Run(rows, dict(conditions), ["a note on the measurement"])
    profile, notes = build_profile(run, gpu)
    run.fit_notes += notes
    return save(run, profile, gpu, target_path(gpu.id, None), datasheet=not listed)


def times(n: int, k: int, single: float) -> list[Row]:
    packed = [(m, 4 * n * k / 5e9 + 2 * m * n * k / 95e9) for m in (2, 4, 16, 64, 256)]
    return [Row("gemm", "fp32", s * 1e6, "llama_cpp", m=m, n=n, k=k, sets=9) for m, s in [(1, 4 * n * k / single), *packed]]


def test_a_processors_fit_is_redone_whole() -> None:
    rows = [row for n, k in SHAPES for row in times(n, k, 22e9)]
    path = saved(CPU, rows, {"device": "Some processor", "threads": 2}, listed=False)
    before = json.loads(path.read_text())
    refit(path.with_suffix(".csv"), "cpu")
    after = json.loads(path.read_text())
    assert after["datasheet"] == before["datasheet"]
    assert {**after["conditions"], "notes": 0} == {**before["conditions"], "notes": 0}
    assert after["conditions"]["notes"][0] == "a note on the measurement"
    old, new = before["entries"][0], after["entries"][0]
    assert new["provenance"]["measured_format"] == "fp32"
    assert new["parameters"] == pytest.approx(old["parameters"], rel=0.02)
    assert new["parameters"]["row_limit"] == 1.0
    assert load_gpu("cpu").kernels.find("gemm", "bf16", "llama_cpp").origin == "user"


def test_a_gpu_outside_the_catalogue_is_found_again(tmp_path: Path) -> None:
    mine = replace(H200, id="my_gpu", name="My GPU", nvml_names=("My GPU",), aliases=(), kernels=None)
    path = saved(mine, gpu_rows(), CONDITIONS, listed=False)
    table = tmp_path / "kept.csv"
    table.write_bytes(path.with_suffix(".csv").read_bytes())
    path.unlink()
    path.with_suffix(".csv").unlink()
    refit(table)
    found = load_gpu("my_gpu")
    assert found.sm_count == H200.sm_count
    assert found.kernels.find("gemm", "bf16", "vllm").origin == "user"


def test_a_gpu_file_gives_the_datasheet(tmp_path: Path) -> None:
    text = Path(__file__).parents[2].joinpath("profiles", "gpus", "h200_sxm.toml").read_text()
    file = tmp_path / "mygpu.toml"
    file.write_text(text.replace('"h200_sxm"', '"mygpu"').replace('"NVIDIA H200"', '"My GPU"'))
    table = tmp_path / "bare.csv"
    table.write_text(bare(saved(H200, gpu_rows(), {}, listed=True)))
    done = refit(table, str(file))
    assert done.path.name == "mygpu.json"
    assert json.loads(done.path.read_text())["datasheet"]["id"] == "mygpu"
    assert load_gpu("mygpu").kernels.find("gemm", "bf16", "vllm").origin == "user"


def test_the_age_of_a_redone_calibration_still_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(H200, gpu_rows(), CONDITIONS, listed=True)
    refit(path.with_suffix(".csv"))
    monkeypatch.setattr(freshness, "local_driver", lambda: "600.2")
    monkeypatch.setattr(freshness, "local_cublas", lambda: "")
    assert "580.65.06 -> 600.2" in str(freshness.outdated_note("h200_sxm"))
    assert json.loads(path.read_text())["entries"][0]["provenance"]["driver"] == "580.65.06"


def test_rows_of_another_gpu_are_refused(home: Path) -> None:
    path = saved(H200, gpu_rows(), CONDITIONS, listed=True)
    with pytest.raises(InputError, match="holds rows of h200_sxm"):
        refit(path.with_suffix(".csv"), "h100_sxm")
    assert sorted(p.name for p in home.rglob("*.json")) == ["h200_sxm.json"]
    refit(path.with_suffix(".csv"), "H200")  # another spelling of the same


def bare(profile: Path) -> str:
    """The table as it was written before it had a head."""
    lines = profile.with_suffix(".csv").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def test_a_table_without_head_is_read_with_a_note_and_saved_with_one(tmp_path: Path) -> None:
    path = saved(H200, gpu_rows(), {}, listed=True)
    table = tmp_path / "old.csv"
    table.write_text(bare(path))
    done = refit(table, "h200_sxm")
    assert "old.csv does not name its GPU: taken as rows of h200_sxm" in done.notes
    with pytest.raises(InputError, match="holds rows of h200_sxm"):
        refit(done.path.with_suffix(".csv"), "l40s")


def test_nothing_is_written_on_request(home: Path, tmp_path: Path) -> None:
    table = tmp_path / "good.csv"
    table.write_text(bare(saved(H200, gpu_rows(), {}, listed=True)))
    before = {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}
    done = refit(table, "h200_sxm", write=False)
    assert done.profile.entries
    assert {p: p.read_bytes() for p in home.rglob("*") if p.is_file()} == before


HEAD = "operator,format,us,m,n,k,engine,sets,auto"
GOOD = "gemm,bf16,10,1,4096,4096,vllm,64,1"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("gemm,bf16,inf,1,4096,4096,vllm,64,1", "us in line 7: inf"),
        ("gemm,bf16,,1,4096,4096,vllm,64,1", "us in line 7: 'nothing'"),
        ("gemm,bf16,10,1,4096,4096,vllm,many,1", "sets in line 7: 'many'"),
        ("gemm,bf16,10,1,4096,4096,vllm,0,1", "sets in line 7: 0"),
        ("gemm,bf16,10,1,4096,4096,vllm,64,yes", "auto in line 7: 'yes'"),
        ("gemm,bf16,10,inf,4096,4096,vllm,64,1", "m in line 7"),
        ("gemm,bf16,10,1,4096,4096,vlmm,64,1", "engine: 'vlmm'"),
    ],
)
def test_the_line_and_the_value_that_are_wrong_are_named(tmp_path: Path, bad: str, says: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["# mine", HEAD, "bandwidth,read,5,,,,any,1,1", "# products", GOOD, "", bad, GOOD]) + "\n")
    with pytest.raises(InputError) as error:
        refit(table, "h200_sxm")
    assert says in str(error.value)
    assert "np.float64" not in str(error.value)


def test_a_damaged_head_is_named(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(f"# specadvisor measurements\n# gpu: h200\n{HEAD}\n{GOOD}\n")
    with pytest.raises(InputError, match="gpu in line 2"):
        refit(table)
