"""Engine sections run in a process of their own: whatever happens to it becomes a note."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specadvisor.calibration import engine_run
from specadvisor.calibration.engine_run import measure_engine_section
from specadvisor.calibration.plan import Section

SECTION = Section("all-reduce", "engine", (("nccl", 2), ("nccl", 4)), 1.0)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.syspath_prepend(str(tmp_path))
    return []


def measured(folder: Path, steps: list[int], torch_text: str) -> list[str]:
    """The notes with this text as torch."""
    (folder / "torch.py").write_text(torch_text)
    rows, notes = measure_engine_section(SECTION, lambda: steps.append(1), "llama_cpp", 90, 50 << 20)
    assert rows == []
    return notes


def test_steps_and_notes_come_back(tmp_path: Path, steps: list[int]) -> None:
    text = "import time, types\nprint('loud')\ncuda = types.SimpleNamespace(set_device=lambda index: time.sleep(0.3))"
    notes = measured(tmp_path, steps, text)
    assert [n.split(",")[0] for n in notes] == [f"all-reduce of nccl over {n} GPUs: not measured" for n in (2, 4)]
    assert "No module named 'torch.multiprocessing'" in notes[0]
    assert len(steps) <= 2  # those of the last moment may be missed


def test_a_crash_costs_the_section(tmp_path: Path, steps: list[int]) -> None:
    crash = "import os, signal\nprint('illegal memory access', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    assert measured(tmp_path, steps, crash) == ["all-reduce: not measured, its process ended with -9: illegal memory access"]


def test_it_may_not_take_for_ever(tmp_path: Path, steps: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_run, "TIMEOUT_S", 1.0)
    notes = measured(tmp_path, steps, "import time\ntime.sleep(60)")
    assert notes == ["all-reduce: not measured, not done after 1 s: no message"]


def test_an_interrupt_ends_the_process_too(tmp_path: Path, steps: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(process: object, *rest: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_run, "_waited", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path, steps, "import time\ntime.sleep(60)")


def test_fakes_are_no_torch_for_it(steps: list[int]) -> None:
    """Whatever a test leaves importable, an invented clock cannot get into a user's calibration."""
    sys.path.insert(0, str(Path(__file__).parent / "fake_engines"))
    try:
        rows, notes = measure_engine_section(SECTION, lambda: None, "llama_cpp", 90, 50 << 20)
    finally:
        sys.path.pop(0)
    assert rows == []
    assert "this torch is a test's fake" in notes[0]
