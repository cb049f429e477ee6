from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from specadvisor.calibration.save import gpu_table, profile_text
from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError, MissingDependency
from specadvisor.hardware import load_gpu
from specadvisor.hardware.catalogue import unlisted_id
from specadvisor.hardware.kernel_profile import KernelProfile


class FakeNvml(SimpleNamespace):
    """Stands in for the ``pynvml`` module."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, names: list[str], memory_mib: float | None, limit_w: float = 450, default_w: float = 450) -> None:
        super().__init__(names=names, memory_mib=memory_mib, limit_w=limit_w, default_w=default_w, open=0)

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.names[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        if self.memory_mib is None:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(total=int(self.memory_mib * 2**20))

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return 2520

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return int(self.limit_w * 1000)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int) -> int:
        return int(self.default_w * 1000)


def test_auto_finds_the_gpu_its_count_and_a_lowered_power_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(["NVIDIA GeForce RTX 4090"] * 2, 24564, limit_w=300)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    gpu = load_gpu("auto")
    assert (gpu.id, gpu.gpus_per_node, gpu.power_limit_w) == ("rtx_4090", 2, 300)
    assert gpu.clock_scale < 1 and fake.open == 0
    fake.limit_w = 450
    assert load_gpu("auto").clock_scale == 1.0


def test_auto_without_a_memory_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(["NVIDIA GB10"], None))
    assert load_gpu("auto").id == "gb10"


def test_auto_finds_a_calibrated_gpu_that_is_not_in_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(["NVIDIA Unheard 9000"], 24564))
    with pytest.raises(InputError, match="Unheard 9000"):
        load_gpu("auto")
    source = load_gpu("l40s")
    assert source.kernels is not None
    unlisted = replace(source, id=unlisted_id("NVIDIA Unheard 9000"), name="NVIDIA Unheard 9000")
    path = tmp_path / "kernels" / "unheard_9000.json"
    path.parent.mkdir()
    path.write_text(profile_text(KernelProfile(unlisted.id, source.kernels.entries[:1]), {}, gpu_table(unlisted)))
    for name in ("auto", "Unheard 9000", "unheard_9000"):
        found = load_gpu(name)
        assert (found.id, found.sm) == ("unheard_9000", 89)
        assert found.kernels is not None and found.kernels.entries[0].origin == "user"


def test_auto_says_what_to_pass_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MissingDependency, match=r"pip install nvidia-ml-py.*--gpu h100_sxm"):
        load_gpu("auto")
    broken = FakeNvml([], None)

    def no_driver() -> None:
        raise FakeNvml.NVMLError("NVML Shared Library Not Found")

    broken.nvmlInit = no_driver
    monkeypatch.setitem(sys.modules, "pynvml", broken)
    with pytest.raises(MissingDependency, match=r"Shared Library Not Found.*--gpu h100_sxm"):
        load_gpu("auto")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([], None))
    with pytest.raises(MissingDependency, match="sees none"):
        load_gpu("auto")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(["NVIDIA L4", "NVIDIA A10"], 24000))
    with pytest.raises(InputError, match="one kind of GPU"):
        load_gpu("auto")


def test_a_users_own_gpu_file(tmp_path: Path) -> None:
    text = (profiles_dir() / "gpus" / "l4.toml").read_text()
    path = tmp_path / "my_card.toml"
    path.write_text(text.replace('id = "l4"', 'id = "my_card"').replace("gb_per_s = 300", "gb_per_s = 600"))
    assert load_gpu(str(path)).memory_bytes_per_s == 600e9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sm = 89", "", "key sm"),
        ("gb_per_s = 300", "gb_per_s = -1", "number above 0"),
        ("bf16 = 121", "bf17 = 121", "peak_tflops"),
        ("sm = 89", "sm = ", "TOML"),
    ],
)
def test_a_broken_gpu_file_is_one_clear_message(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text((profiles_dir() / "gpus" / "l4.toml").read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_gpu(path)


def test_missing_or_wrong_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="existing"):
        load_gpu(tmp_path / "none.toml")
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"a": 1}))
    with pytest.raises(InputError, match="calibrate"):
        load_gpu(wrong)


def test_a_calibration_file_names_its_gpu_and_brings_its_kernels(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"schema_version": 1, "gpu": "RTX 4090", "entries": []}))
    gpu = load_gpu(path, count=2)
    assert (gpu.id, gpu.gpus_per_node) == ("rtx_4090", 2)
    assert gpu.kernels is not None and gpu.kernels.source == "user"
    assert load_gpu("rtx_4090").kernels is not None


def test_importing_the_package_does_not_import_nvml() -> None:
    import subprocess

    code = "import sys, specadvisor.hardware as h; h.load_gpu('l4'); sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=profiles_dir().parent, check=False).returncode == 0


def test_a_users_stand_in_does_not_hide_what_was_measured_of_the_engine() -> None:
    shipped = load_gpu("h200_sxm").kernels
    assert shipped is not None
    measured = shipped.find("attention", "bf16", "vllm")
    stand_in = replace(measured, engine="any", state="sibling", kernel="own", origin="user")
    mine = replace(measured, kernel="mine", origin="user")
    for first, expected in ((stand_in, measured), (mine, mine)):
        assert KernelProfile("h200_sxm", (first, *shipped.entries)).find("attention", "bf16", "vllm") == expected
    assert KernelProfile("h200_sxm", (stand_in,)).find("attention", "bf16", "vllm") == stand_in
