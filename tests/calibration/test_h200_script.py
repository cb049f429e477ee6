"""The prepared script for a GPU machine: its plan, its report, and its small form against the stand-ins."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from stand_in_process import StandIn

from specadvisor.calibration.attention_bench import KERNEL
from specadvisor.calibration.nvml import Clocks
from specadvisor.calibration.plan import AttentionPoint
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.calibration.timing import Effort
from specadvisor.hardware import load_gpu

FOLDER = Path(__file__).parents[2] / "benchmarks" / "gpu"
sys.path.append(str(FOLDER))

import h200_plan  # noqa: E402
import h200_report  # noqa: E402
from h200_session import Session  # noqa: E402

H200 = load_gpu("h200_sxm")


def run(stand_in: StandIn, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return stand_in._run([sys.executable, str(FOLDER / "h200.py"), *arguments], settings)


def test_the_plan_holds_the_whole_grid_once() -> None:
    points = [p for task in h200_plan.make_tasks(H200) if task.kind == "attention" for p in task.points]
    for kv_format in ("bf16", "fp8"):
        wanted = {
            AttentionPoint(b, q, s, g, kv_format=kv_format)
            for b in (1, 8, 32, 128)
            for g in (1, 4, 8)
            for q in (1, 2, 4, 8, 16, 32)
            for s in (2048, 8192, 32768)
        }
        assert wanted <= set(points)
        at_one_place = {p.query_tokens for p in points if (p.kv_format, p.batch, p.context, p.group) == (kv_format, 8, 8192, 8)}
        assert at_one_place >= {*range(1, 17), 32, 64}
    edges = [p for task in h200_plan.make_tasks(H200) if task.section == "past the tiles" for p in task.points]
    past = {(p.group, p.query_tokens) for p in edges if p.query_tokens not in (1, 2, 4, 8, 16, 32)}
    assert past == {(8, 3), (8, 9), (8, 17), (4, 5), (4, 17), (4, 33)}  # one row tile each: 16, 64 and 128 rows


def test_the_largest_cache_is_counted() -> None:
    """128 sequences x 32768 tokens x 8 KV heads x 128 dimensions x (K and V) x 2 bytes = 17.2 GB, past int32."""
    largest = max(task.gigabytes for task in h200_plan.make_tasks(H200))
    assert largest == pytest.approx(128 * 32768 * 8 * 128 * 2 * 2 / 1e9)


def test_time_of_one_call_by_hand() -> None:
    """8 x 8192 keys in 16 rows: 268 MB at 80% of 4.8 TB/s are 70 us, above the operations; 5 us for the launch."""
    gpu = H200
    expected = 5e-6 + 8 * 8192 * 8 * 128 * 4 / (0.8 * gpu.memory_bytes_per_s)
    assert h200_plan.attention_s(AttentionPoint(8, 2, 8192, 8), gpu) == pytest.approx(expected)
    unsplit = h200_plan.attention_s(AttentionPoint(1, 2, 8192, 8, split=False), gpu)
    assert unsplit == pytest.approx(5e-6 + 132 / 8 * (expected - 5e-6) / 8)


def test_time_to_measure_one_point_by_hand() -> None:
    """1 ms a call, one operand set: 2 + 6 probe calls, 3 warm and 2 x 8 replays; 6 launches queued, nothing to fill."""
    seconds = h200_plan.measuring_s(1e-3, 1, 0.0, Effort(), H200)
    assert seconds == pytest.approx(0.01 + (8 + 3 + 16) * 1e-3 + 6 * 12e-6 + 4 * 3e-4)


def test_the_least_wanted_is_dropped_first() -> None:
    tasks = h200_plan.make_tasks(H200)
    assert h200_plan.within(tasks, 1e9) == (tasks, [])
    kept, dropped = h200_plan.within(tasks, 30.0)
    assert sum(task.seconds for task in kept) <= 30.0
    assert kept[:10] == tasks[:10]
    assert {task.section for task in dropped} >= {"verify fp8 2048", "verify fp8 32768"}
    assert "verify bf16 8192" not in {task.section for task in dropped}


def test_dry_run_needs_no_driver(stand_in: StandIn) -> None:
    done = run(stand_in, "--dry-run", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr
    likely, worst = map(int, re.findall(r"about (\d+) s, (\d+) s if no", done.stdout)[0])
    assert 30 < likely < worst < 210
    tight = run(stand_in, "--dry-run", "--budget", "60", LD_LIBRARY_PATH="")
    assert "points dropped" in tight.stdout


def test_small_run(stand_in: StandIn, tmp_path: Path) -> None:
    done = run(stand_in, "--out", str(tmp_path), "--small", STAND_IN_FREE_BYTES="4e9")
    assert done.returncode == 0, done.stderr
    assert "attention batch 128 x 32768 keys: the cache does not fit into free memory, not measured" in done.stdout
    assert "correctness: every kernel matches float64" in done.stdout
    rows = list(csv.DictReader((tmp_path / "verify.csv").open()))
    assert {r["operator"] for r in rows} >= {"stand_in_gemm", "stand_in_attention", "stand_in_memory", "stand_in_launch"}
    attention = [r for r in rows if r["operator"] == "stand_in_attention"]
    assert {r["format"] for r in attention} == {"bf16", "fp8"}
    assert {r["tile_rows"] for r in attention if r["auto"] == "0"} == {"16", "64", "128"}
    profile = json.loads((tmp_path / "verify.json").read_text())
    assert profile["gpu"] == "stand_in"
    assert {"measured_on", "device", "driver", "cublas", "nvrtc", "sentinels_us", "clocks"} <= profile["conditions"].keys()
    assert "every time is invented" in (tmp_path / "report.md").read_text()


CONDITIONS = {"measured_on", "device", "driver", "cublas", "nvrtc", "sentinels_us", "clocks"}


def check_files(folder: Path) -> str:
    """The report of a run whose files are all there."""
    assert {p.name for p in folder.iterdir()} == {"verify.csv", "verify.json", "report.md"}
    assert json.loads((folder / "verify.json").read_text())["conditions"].keys() >= CONDITIONS
    report = (folder / "report.md").read_text()
    assert json.loads(report.split("```")[1].removeprefix("json")).keys() >= CONDITIONS
    return report


def test_an_interrupt_while_measuring_writes_what_there_is(stand_in: StandIn, tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "h200.py"), "--out", str(tmp_path / "out")]
    environment = stand_in.environment(STAND_IN_FREE_BYTES="4e9", STAND_IN_SLEEP_MS="1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if "verify bf16 8192" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted: later tasks are missing" in check_files(tmp_path / "out")


def test_interrupts_after_the_last_task_lose_nothing(stand_in: StandIn, tmp_path: Path) -> None:
    """While the run closes, fits and reports."""
    text = (
        f"import os, signal, sys\nsys.path[:0] = [{str(FOLDER)!r}]\nimport h200\n"
        "def interrupted(real):\n    return lambda *a: os.kill(os.getpid(), signal.SIGINT) or real(*a)\n"
        "h200.make_tasks = lambda gpu, small, make=h200.make_tasks: make(gpu, small)[:8]\n"
        "h200.Session.close, h200.build_profile, h200.report_text = map(\n"
        "    interrupted, (h200.Session.close, h200.build_profile, h200.report_text))\n"
        f"sys.exit(h200.main(['--small', '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = stand_in._run([sys.executable, "-c", text], {"STAND_IN_FREE_BYTES": "4e9"})
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines() == ["interrupted: what was measured is being written"] * 3
    assert "later tasks are missing" not in check_files(tmp_path / "out")


def throttled(spoiled: list[bool]) -> Session:
    """A session after one task whose attempts were throttled or not."""
    session = Session.__new__(Session)
    session.gpu, session.run, session.pace, session.cool_down_s = H200, Run(), 1.0, 0.0
    session.end, session.out = time.perf_counter() + 100.0, Path()
    clocks, attempts = Clocks(), iter(spoiled)

    def measure(task: h200_plan.Task) -> tuple[list[Row], list[str]]:
        clocks.reasons |= 0x40 if next(attempts) else 0
        return [attention(1, 100.0)], []

    session.measure = measure  # type: ignore[method-assign]
    session._one(h200_plan.Task("verify", "attention", (None,), 1.0), clocks)
    assert next(attempts, None) is None
    return session


@pytest.mark.parametrize(("spoiled", "fitted"), [([False], True), ([True, False], True), ([True, True], False)])
def test_a_throttled_task_is_measured_once_more(monkeypatch: pytest.MonkeyPatch, spoiled: list[bool], fitted: bool) -> None:
    monkeypatch.setattr("specadvisor.calibration.save.write_together", lambda texts: None)
    session = throttled(spoiled)
    (row,) = session.run.rows
    assert row.auto is fitted
    assert session.run.notes == (
        [] if fitted else ["verify: 1 rows measured while throttled (hardware thermal limit), not fitted"]
    )
    assert row.note == ("" if fitted else "throttled")


def test_exit_codes(stand_in: StandIn, tmp_path: Path) -> None:
    def code(*arguments: str, **settings: str) -> tuple[int, int]:
        done = run(stand_in, "--out", str(tmp_path), *arguments, **settings)
        return done.returncode, len(done.stderr.strip().splitlines())

    assert code(LD_LIBRARY_PATH="") == (2, 1)
    assert code(STAND_IN_DEVICES="0") == (2, 1)
    assert code("--budget", "25") == (2, 1)
    assert code("--gpu", "h100_sxm") == (2, 1)
    assert not list(tmp_path.iterdir())
    (tmp_path / "verify.json").write_text("{}")
    assert code() == (2, 1)


def test_report_tables_by_hand() -> None:
    rows = [
        Row("bandwidth", "read", 500.0, kernel="own", bytes=2**31),
        Row("memory", "any", 1000.0, kernel="copy", bytes=2**32),
        Row("launch", "graph node", 1.25, kernel="own"),
        *(Row("gemm", "fp8", us, m=m, n=1000, k=2000) for m, us in ((64, 10.0), (1, 4.0))),
        Row("gemm", "fp8", 3.0, m=1, n=1000, k=2000, auto=False),
    ]
    text = h200_report.report_text(Run(rows=rows), [])
    assert "| 2048 | 4,295 | - |" in text and "| 4096 | - | 4,295 |" in text
    assert "| graph node | 1.25 |" in text
    assert "| fp8 | 1000 | 2000 | 1: 4.0, 64: 10.0 | 26 at 64 |" in text  # 2 x 64 x 1000 x 2000 / 10 us


def test_a_wrong_kernel_ends_the_run(stand_in: StandIn, tmp_path: Path) -> None:
    done = run(stand_in, "--out", str(tmp_path), "--small", STAND_IN_LT_WRONG="1")
    assert done.returncode == 1
    assert "float64 reference" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_task_that_would_end_too_late_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.__new__(Session)
    session.device, session.pace, session.dropped = SimpleNamespace(uuid=""), 2.0, Counter()  # type: ignore[assignment]
    session.end = time.perf_counter() + 10.0
    done: list[str] = []
    monkeypatch.setattr(session, "_one", lambda task, seen: done.append(task.section))
    tasks = [h200_plan.Task(name, "launch", (None,) * 3, s) for name, s in (("long", 6.0), ("short", 4.0), ("longer", 60.0))]
    session.measure_all(tasks)
    assert done == ["short"]
    assert session.dropped == {"long": 3, "longer": 3}


def test_a_fault_keeps_what_was_measured(stand_in: StandIn, tmp_path: Path) -> None:
    done = run(stand_in, "--out", str(tmp_path), "--small", STAND_IN_FAULT="attention_d128_r16_bf16:100")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    report = (tmp_path / "report.md").read_text()
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in report
    assert len((tmp_path / "verify.csv").read_text().splitlines()) > 10


def attention(query_tokens: int, us: float, group: int = 8, kernel: str = KERNEL) -> Row:
    shape = {"batch": 8, "context": 8192, "heads": 8 * group, "kv_heads": 8, "head_dim": 128, "query_tokens": query_tokens}
    return Row(operator="attention", format="bf16", us=us, kernel=kernel, tile_rows=16, splits=2, **shape)


def test_the_report_finds_steps_and_says_what_they_cost() -> None:
    rows = [attention(1, 100.0), attention(2, 100.0), attention(3, 150.0), attention(16, 200.0), attention(17, 320.0)]
    rows += [attention(q, us, kernel="torch attention") for q, us in ((1, 50.0), (2, 400.0))]
    text = h200_report.report_text(Run(rows=rows), [])
    assert f"| {KERNEL} | bf16 | 8 | 8192 | 8 | 16 | 2 -> 3 | 1.50 | 1.50 |" in text
    assert f"| {KERNEL} | bf16 | 8 | 8192 | 8 | 128 | 16 -> 17 | 1.60 | 1.06 |" in text
    assert f"| {KERNEL} | bf16 | 8 | 8192 | 8 | 15 | 2.00 | 1.60 at 136 rows | 15 |" in text
    assert "| torch attention | bf16 | 8 | 8192 | 8 | 1: 2.00, 2: 0.25 |" in text
    assert "8: 1.00 (16/2), 16: 1.00 (16/2), 24: 1.50 (16/2), 128: 2.00 (16/2), 136: 3.20 (16/2) |" in text
