"""Options of ``calibrate`` that would be ignored are refused by name; what was written is said, also when interrupted."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from specadvisor.data_files import user_dir

GEMM = "gemm,bf16,{us:.2f},{m},8192,8192,vllm,9"


@pytest.fixture
def table(tmp_path):
    lines = [GEMM.format(m=m, us=36 + 0.2 * m) for m in (1, 2, 4, 8, 16, 32, 64, 128)]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["operator,format,us,m,n,k,engine,sets", *lines]) + "\n")
    return path


CASES = {
    "a GPU for the processor": (("--device", "cpu", "--gpu", "h200_sxm"), "--gpu", "--device cpu"),
    "an index for the processor": (("--device", "cpu", "--index", "3"), "--index", "--device"),
    "a format for the processor": (("--gpu", "cpu", "--gemm", "fp8"), "--gemm", "--gpu"),
    "the GPU's driver for the processor": (("--gpu", "cpu", "--device", "cuda"), "--device", "--gpu cpu"),
    "one GPU of a fleet": (("--executor", "tcp://x:1", "--gpu", "l4"), "--gpu", "--executor"),
    "one device of a fleet": (("--executor", "tcp://x:1", "--device", "cpu"), "--device", "--executor"),
    "one index of a fleet": (("--executor", "tcp://x:1", "--index", "1"), "--index", "--executor"),
    "a fleet that fits": (("--from-measurements", "TABLE", "--executor", "tcp://x:1"), "--executor", "--from-measurements"),
    "a quick fit": (("--from-measurements", "TABLE", "--quick"), "--quick", "--from-measurements"),
    "a fit for a model": (("--from-measurements", "TABLE", "--model", "nosuch"), "--model", "--from-measurements"),
}


@pytest.mark.parametrize("name", CASES)
def test_options_that_do_not_go_together(run, table, name):
    arguments, refused, beside = CASES[name]
    outcome = run("calibrate", *(str(table) if a == "TABLE" else a for a in arguments))
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith(f"specadvisor: {refused}: ") and beside in outcome.err
    assert not user_dir().exists()


def test_a_dry_fit_writes_nothing(run, table):
    outcome = run("calibrate", "--from-measurements", str(table), "--gpu", "h200_sxm", "--dry-run")
    assert outcome.code == 0
    assert "gemm" in outcome.out and "nothing was written" in outcome.err
    assert not user_dir().exists()


def test_an_unbelievable_table_is_one_line(run, table):
    table.write_text(table.read_text().replace("vllm,9", "vllm,64").replace(",36.", ",36000.").replace(",61.60", ",61600"))
    outcome = run("calibrate", "--from-measurements", str(table), "--gpu", "h200_sxm")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert not user_dir().exists()


def test_an_interrupt_after_the_files_are_there_says_so(run, table, monkeypatch):
    from specadvisor.cli import calibrate as command

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_show", interrupted)
    outcome = run("calibrate", "--from-measurements", str(table), "--gpu", "h200_sxm")
    assert outcome.code == 130
    assert "nothing was written" not in outcome.err
    assert str(Path("kernels") / "h200_sxm.json") in outcome.err
    assert (user_dir() / "kernels" / "h200_sxm.json").is_file()


def test_a_full_disk_is_one_line(run, table, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    real = Path.write_text

    def full(self, text, **options):
        if user_dir() in self.parents:
            raise OSError(28, "No space left on device")
        return real(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    outcome = run("calibrate", "--from-measurements", str(table), "--gpu", "h200_sxm")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert "No space left on device" in outcome.err and "--from-measurements" in outcome.err
    assert not list(user_dir().rglob("*"))
