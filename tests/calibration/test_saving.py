"""Profile and table are a pair: both new or both old, whatever fails, and others' files and measurements stay."""

from __future__ import annotations

import errno
import json
import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specadvisor.calibration.merge import check_target
from specadvisor.calibration.pair import write_together
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.calibration.save import NotSaved, save
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.kernel_profile import KernelEntry, KernelProfile, read_kernel_profile

H200 = load_gpu("h200_sxm")
CONDITIONS = {"device": "NVIDIA H200", "driver": "580.1"}


@pytest.fixture(autouse=True)
def spare(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where rows go that cannot be saved."""
    folder = tmp_path_factory.mktemp("spare")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def texts(folder: Path, text: str) -> dict[Path, str]:
    return {folder / "a.csv": f"{text} rows", folder / "a.json": f"{text} profile"}


def contents(folder: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def second_rename(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Make something happen instead of the rename onto a.json, the second of the two."""

    def happens(event: Callable[[], None]) -> None:
        real = Path.replace

        def replacing(self: Path, target: Path) -> Path:
            if self.name.endswith(".partial") and Path(target).suffix == ".json":
                event()
            return real(self, target)

        monkeypatch.setattr(Path, "replace", replacing)

    return happens


@pytest.mark.parametrize("there", [True, False], ids=["old pair", "nothing before"])
def test_a_failed_second_rename_undoes_the_first(
    tmp_path: Path, second_rename: Callable[[Callable[[], None]], None], there: bool
) -> None:
    if there:
        write_together(texts(tmp_path, "old"))

    def fail() -> None:
        raise OSError(errno.EIO, "input/output error")

    second_rename(fail)
    with pytest.raises(OSError, match="input/output"):
        write_together(texts(tmp_path, "new"))
    assert contents(tmp_path) == (texts(tmp_path, "old") if there else {})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_both_files(
    tmp_path: Path, second_rename: Callable[[Callable[[], None]], None], number: signal.Signals
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    write_together(texts(tmp_path, "old"))
    before = signal.signal(number, interrupt)
    second_rename(lambda: os.kill(os.getpid(), number))
    written: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            write_together(texts(tmp_path, "new"), lambda: written.append("yes"))
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)
    assert contents(tmp_path) == texts(tmp_path, "new")
    assert written == ["yes"]


def entry(operator: str = "gemm", format: str = "bf16", engine: str = "vllm", rows: int = 20) -> KernelEntry:
    parameters = H200.kernels.find(operator, format, "vllm").parameters
    return KernelEntry(operator, format, engine, parameters, "measured", 0.05, 0.1, {"rows": rows})


def measured(path: Path, *entries: KernelEntry, **conditions: str) -> Run:
    rows = [Row(e.operator, e.format, 10.0, e.engine, m=1, n=2, k=3, note=f"{e.engine}{e.format}") for e in entries]
    run = Run(rows, {**CONDITIONS, **conditions})
    save(run, KernelProfile("h200_sxm", entries, "user"), H200, path)
    return run


def test_a_full_disk_is_one_line_and_the_rows_are_kept(tmp_path: Path, spare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "full" / "p.json"
    measured(target, entry())
    before = contents(target.parent)
    real = Path.write_text

    def full(self: Path, text: str, **options: str) -> int:
        if self.parent == target.parent:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(NotSaved, match="No space left on device") as error:
        measured(target, entry(rows=99))
    assert contents(target.parent) == before
    (kept,) = spare.iterdir()
    assert "--from-measurements" in str(error.value) and str(kept) in str(error.value)
    assert "vllmbf16" in kept.read_text() and "h200_sxm" in kept.read_text()
    monkeypatch.setattr(tempfile, "tempdir", str(target.parent))
    with pytest.raises(NotSaved, match="measurements are lost"):
        measured(target, entry())


def test_what_another_run_measured_stays(tmp_path: Path) -> None:
    path = tmp_path / "h200_sxm.json"
    measured(path, entry(), entry("attention"), entry(format="fp8"))
    run = measured(path, entry(engine="sglang"), entry(format="fp8", rows=6))
    keys = {(e.operator, e.format, e.engine): e.provenance["rows"] for e in read_kernel_profile(path).entries}
    assert keys == {("gemm", "bf16", "sglang"): 20, ("gemm", "fp8", "vllm"): 6, ("gemm", "bf16", "vllm"): 20,
                    ("attention", "bf16", "vllm"): 20}  # fmt: skip
    table = path.with_suffix(".csv").read_text()
    assert [table.count(note) for note in ("sglangbf16", "vllmbf16", "vllmfp8")] == [1, 2, 1]
    notes = json.loads(path.read_text())["conditions"]["notes"]
    assert notes == run.fit_notes == [
        "replaced by a fit of fewer rows: gemm fp8 vllm (rows 20 -> 6)",
        "kept from the calibration before, not measured this time: gemm bf16 vllm, attention bf16 vllm",
    ]  # fmt: skip


def test_what_was_measured_under_another_driver_goes_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "h200_sxm.json"
    measured(path, entry(), entry("attention"))
    run = measured(path, entry(engine="sglang"), driver="600.2")
    assert [e.engine for e in read_kernel_profile(path).entries] == ["sglang"]
    (note,) = run.fit_notes
    assert "driver 580.1 -> 600.2" in note and "gemm bf16 vllm, attention bf16 vllm" in note
    assert "vllmbf16" not in path.with_suffix(".csv").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.json", '{"model_type": "qwen3"}'), ("p.json", "[1]"), ("p.json", "not json"), ("p.csv", "date,price\n1,2\n")],
)
def test_files_of_others_are_not_overwritten(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="stays as it is"):
        check_target(tmp_path / "p.json", "h200_sxm")
    with pytest.raises(NotSaved, match="stays as it is"):
        measured(tmp_path / "p.json", entry())
    assert contents(tmp_path) == {tmp_path / name: text}


def test_another_gpus_profile_is_not_overwritten(tmp_path: Path) -> None:
    measured(tmp_path / "p.json", entry())
    other = replace(H200, id="h100_sxm")
    for gpu, stand_in in ((other, False), (H200, True)):
        with pytest.raises(NotSaved, match="profile of h200_sxm"):
            save(Run(stand_in=stand_in), KernelProfile(gpu.id, (entry(),), "user"), gpu, tmp_path / "p.json")


def test_odd_values_in_the_old_profile_do_not_stop_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    measured(path, entry("attention"), entry())
    data = json.loads(path.read_text()) | {"conditions": "lost"}
    data["entries"][1]["provenance"]["rows"] = "many"
    path.write_text(json.dumps(data))
    run = measured(path, entry())
    assert "device not stated -> NVIDIA H200" in run.fit_notes[-1]


def test_a_damaged_calibration_of_ours_can_be_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    path = tmp_path / "kernels" / "h200_sxm.json"
    path.parent.mkdir()
    path.write_text('{"schema_version": 1, "gpu": "h200_sx')
    run = measured(path, entry())
    assert read_kernel_profile(path).entries
    assert "could not be read and was replaced" in run.fit_notes[0]
