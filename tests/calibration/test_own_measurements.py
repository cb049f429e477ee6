"""From the table of ``benchmarks/gpu/h200.py`` to the shipped profile, with rows made by hand in temporary folders."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from specadvisor import kernels
from specadvisor.calibration.attention_bench import KERNEL
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.calibration.save import rows_text
from specadvisor.data_files import profiles_dir
from specadvisor.hardware import load_gpu
from specadvisor.hardware.kernel_profile import read_kernel_profile

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import own_measurements

H200 = load_gpu("h200_sxm")
CONDITIONS = {"measured_on": "2026-12-01", "device": "NVIDIA H200", "driver": "580.65.06", "stand_in": False}


def table(path: Path, stand_in: bool = False) -> Path:
    """Rows as long as the shipped law says, 10% slower, as if our own kernel had taken them; and a product."""
    rows = [Row("gemm", "bf16", 50.0, engine="vllm", m=16, n=10240, k=8192)]
    for batch, context in ((1, 32768), (8, 8192), (32, 8192), (8, 2048), (32, 2048)):
        for group in (4, 8):
            for q in (1, 2, 4, 8, 16):
                seconds = float(kernels.attention_s(H200, batch, q, context, 8 * group, 8, 128))
                shape = {"batch": batch, "query_tokens": q, "context": context, "heads": 8 * group, "kv_heads": 8, "sets": 8}
                rows.append(Row("attention", "bf16", 1.1e6 * seconds, kernel=KERNEL, head_dim=128, stand_in=True, **shape))
    path.write_text(rows_text(Run(rows=rows, conditions=CONDITIONS, stand_in=stand_in), H200))
    return path


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, ...]:
    """Arguments for temporary data and profiles, the latter with the shipped profile."""
    (tmp_path / "profiles").mkdir()
    shutil.copy(profiles_dir() / "kernels" / "h200_sxm.json", tmp_path / "profiles")
    return "--data", str(tmp_path / "data"), "--profiles", str(tmp_path / "profiles")


def test_the_attention_part_and_its_provenance_come_into_the_profile(tmp_path: Path, folders: tuple[str, ...]) -> None:
    source = table(tmp_path / "verify.csv")
    before = read_kernel_profile(tmp_path / "profiles" / "h200_sxm.json").entries
    for _ in range(2):  # a second time replaces the entry, and adds none
        assert own_measurements.main([str(source), *folders]) == 0
        assert (tmp_path / "data" / "h200_sxm.csv").read_text() == source.read_text()
        profile = read_kernel_profile(tmp_path / "profiles" / "h200_sxm.json")
        (own,) = [e for e in profile.entries if e.provenance["source"] == own_measurements.SOURCE]
        assert (own.operator, own.format, own.engine, own.state, own.kernel) == ("attention", "bf16", "any", "sibling", KERNEL)
        assert own.provenance["table"] == "benchmarks/data/verify/h200_sxm.csv"
        assert (own.provenance["measured_on"], own.provenance["driver"]) == ("2026-12-01", "580.65.06")
        assert own.provenance["rows"] == 50
        assert [e for e in profile.entries if e is not own] == list(before)
        assert profile.source == "shipped"


def test_the_committed_table_gives_the_same_profile_again(tmp_path: Path, folders: tuple[str, ...]) -> None:
    own_measurements.main([str(table(tmp_path / "verify.csv")), *folders])
    merged = read_kernel_profile(tmp_path / "profiles" / "h200_sxm.json").entries
    shipped = read_kernel_profile(profiles_dir() / "kernels" / "h200_sxm.json").entries
    again = own_measurements.with_measured(shipped, "h200_sxm", tmp_path / "data")
    assert [(e.operator, e.format, e.engine, e.kernel) for e in again] == [
        (e.operator, e.format, e.engine, e.kernel) for e in merged
    ]
    assert again[-1].parameters["em"] == pytest.approx(merged[-1].parameters["em"], rel=1e-3)


def test_invented_times_are_refused(tmp_path: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    before = (tmp_path / "profiles" / "h200_sxm.json").read_text()
    assert own_measurements.main([str(table(tmp_path / "verify.csv", stand_in=True)), *folders]) == 2
    assert "stand_in" in capsys.readouterr().err
    marked = table(tmp_path / "verify.csv").read_text().replace('"stand_in": false', '"stand_in": true')
    (tmp_path / "verify.csv").write_text(marked)
    assert own_measurements.main([str(tmp_path / "verify.csv"), *folders]) == 2
    headless = "\n".join(line for line in marked.splitlines() if not line.startswith("#"))
    (tmp_path / "verify.csv").write_text(headless)
    assert own_measurements.main([str(tmp_path / "verify.csv"), *folders]) == 2
    assert (tmp_path / "profiles" / "h200_sxm.json").read_text() == before
    assert not (tmp_path / "data").exists()


def test_without_a_table_nothing_changes(tmp_path: Path) -> None:
    shipped = read_kernel_profile(profiles_dir() / "kernels" / "h200_sxm.json").entries
    assert own_measurements.with_measured(shipped, "h200_sxm", tmp_path) == shipped
    assert json.loads((profiles_dir() / "kernels" / "h200_sxm.json").read_text())["gpu"] == "h200_sxm"


def test_a_table_that_cannot_be_believed_changes_nothing(tmp_path: Path, folders: tuple[str, ...], capsys) -> None:
    good = table(tmp_path / "verify.csv")
    assert own_measurements.main([str(good), *folders]) == 0
    kept = [(tmp_path / "data" / "h200_sxm.csv").read_text(), (tmp_path / "profiles" / "h200_sxm.json").read_text()]
    lines = good.read_text().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("operator"))
    column = lines[header].split(",").index("us")
    for i in range(header + 1, len(lines)):  # nanoseconds
        cells = lines[i].split(",")
        cells[column] = str(1e3 * float(cells[column]))
        lines[i] = ",".join(cells)
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines) + "\n")
    assert own_measurements.main([str(bad), *folders]) == 2
    assert [(tmp_path / "data" / "h200_sxm.csv").read_text(), (tmp_path / "profiles" / "h200_sxm.json").read_text()] == kept
