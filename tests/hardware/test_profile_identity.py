"""A saved profile speaks for the GPU that it was measured on, and for no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specadvisor.calibration.entry import plan_for
from specadvisor.calibration.identify import identify
from specadvisor.cli.app import main
from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.gpu_file import gpu_from_table

ENTRY = {
    "operator": "memory",
    "format": "any",
    "engine": "any",
    "state": "measured",
    "parameters": {"t0_s": 3e-6, "em": 0.8},
    "error": {"median": 0.03, "p90": 0.1},
}


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a profile for h200_sxm into the user's folder, with changes to its head or entry."""
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))

    def write(entry: dict[str, Any] | None = None, **head: Any) -> Path:
        path = tmp_path / "kernels" / "h200_sxm.json"
        path.parent.mkdir(exist_ok=True)
        data = {"schema_version": 1, "gpu": "h200_sxm", "source": "user", "entries": [{**ENTRY, **(entry or {})}], **head}
        path.write_text(json.dumps(data))
        return path

    return write


@pytest.mark.parametrize("name", ["h200_sxm", "H200", "NVIDIA H200"])
def test_every_spelling_of_the_gpu_is_its_own(saved: Callable[..., Path], name: str) -> None:
    saved(gpu=name)
    kernels = load_gpu("h200_sxm").kernels
    assert kernels is not None and kernels.source == "user" and kernels.entries[0].parameters["em"] == 0.8


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"gpu": "l40s"}, "h200_sxm.json: gpu: 'l40s'"),
        ({"gpu": "stand_in", "source": "stand-in"}, "h200_sxm.json: source: \"a test's stand-in"),
        ({"source": "stand-in"}, "h200_sxm.json: source: \"a test's stand-in"),
        ({"conditions": {"stand_in": True}}, "h200_sxm.json: source: \"a test's stand-in"),
    ],
)
def test_another_gpus_or_invented_times_are_refused(
    saved: Callable[..., Path], head: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(**head)
    with pytest.raises(InputError) as raised:
        load_gpu("h200_sxm")
    assert message in str(raised.value) and f"Move {path} away;" in str(raised.value)
    with pytest.raises(SystemExit) as ended:
        main(["gpus", "h200_sxm"])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_shipped_folder_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "profiles"
    (folder / "kernels").mkdir(parents=True)
    shutil.copy(profiles_dir() / "kernels" / "families.json", folder / "kernels")
    data = json.loads((profiles_dir() / "kernels" / "h200_sxm.json").read_text())
    (folder / "kernels" / "h200_sxm.json").write_text(json.dumps({**data, "gpu": "stand_in", "source": "stand-in"}))
    gpu = load_gpu("h200_sxm")
    monkeypatch.setattr("specadvisor.hardware.kernel_profile.profiles_dir", lambda: folder)
    from specadvisor.hardware.kernel_profile import load_kernel_profile

    with pytest.raises(InputError, match="stand-in"):
        load_kernel_profile(gpu)


def test_a_file_given_by_its_path_is_checked_too(saved: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="stand-in"):
        load_gpu(saved(source="stand-in"))


@pytest.mark.parametrize("named", ["auto", "h200_sxm"])
def test_a_damaged_profile_does_not_keep_the_gpu_from_being_measured(saved: Callable[..., Path], named: str) -> None:
    saved(gpu="l40s")
    device = SimpleNamespace(name="NVIDIA H200", memory_bytes=140 * 2**30)
    gpu, listed = identify(device, named)  # type: ignore[arg-type]
    assert (gpu.id, listed) == ("h200_sxm", True)
    assert plan_for("h200_sxm", quick=True).sections


def test_a_gpu_file_of_ones_own_is_not_in_the_catalogue(tmp_path: Path) -> None:
    text = (profiles_dir() / "gpus" / "h200_sxm.toml").read_text().replace('"h200_sxm"', '"mine"', 1)
    (tmp_path / "mine.toml").write_text(text)
    device = SimpleNamespace(name="NVIDIA H200", memory_bytes=140 * 2**30)
    gpu, listed = identify(device, str(tmp_path / "mine.toml"))  # type: ignore[arg-type]
    assert (gpu.id, listed) == ("mine", False)


@pytest.mark.parametrize(
    ("provenance", "field"),
    [(None, "provenance"), ([], "provenance"), ({"dropped": None}, "provenance dropped"), ({"warnings": 3}, "provenance warn")],
)
def test_a_malformed_provenance_is_named(saved: Callable[..., Path], provenance: object, field: str) -> None:
    saved(entry={"provenance": provenance})
    with pytest.raises(InputError, match=f"entry 1: {field}"):
        load_gpu("h200_sxm")


def test_a_datasheet_with_a_number_for_a_table_is_one_line() -> None:
    for name in ("memory", "links", "provenance", "peak_tflops"):
        with pytest.raises(InputError, match=f"{name} as a table"):
            gpu_from_table({"id": "x", name: 3}, where="cpu.json")
