"""Whatever goes wrong: one clear line, an exit code, nothing half-written."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_in_process import StandIn

Failing = Callable[..., "subprocess.CompletedProcess[str]"]


def test_no_driver(failing: Failing) -> None:
    done = failing(LD_LIBRARY_PATH="")
    assert done.returncode == 2
    assert "NVIDIA driver was not found" in done.stderr
    assert "--device cpu" in done.stderr


def test_a_driver_without_a_gpu(failing: Failing) -> None:
    done = failing(STAND_IN_DEVICES="0")
    assert done.returncode == 2
    assert "CUDA_VISIBLE_DEVICES" in done.stderr


def test_a_gpu_that_is_not_there(failing: Failing) -> None:
    done = failing("--index", "3")
    assert done.returncode == 2
    assert "index: 3 cannot be used; accepted: 0 to 0" in done.stderr


def test_out_of_memory(failing: Failing) -> None:
    done = failing(STAND_IN_FAIL="cuMemAlloc:2")
    assert done.returncode == 1
    assert "Allocating" in done.stderr
    assert "CUDA_ERROR_OUT_OF_MEMORY" in done.stderr


def test_out_of_memory_in_the_middle(failing: Failing) -> None:
    assert "CUDA_ERROR_OUT_OF_MEMORY" in failing(STAND_IN_FAIL="cuMemAlloc:2:25").stderr


def test_a_launch_fails_in_the_middle(failing: Failing) -> None:
    done = failing(STAND_IN_FAIL="cuLaunchKernel:719:400")
    assert done.returncode == 1
    assert "Launching" in done.stderr
    assert "719" in done.stderr


def test_an_error_that_the_bindings_do_not_know(failing: Failing) -> None:
    done = failing(STAND_IN_FAIL="cuMemAlloc:9999:5")
    assert done.returncode == 1
    assert "unknown to cuda-bindings (9999)" in done.stderr


def test_a_kernel_that_cannot_be_loaded(failing: Failing) -> None:
    assert "Loading a kernel" in failing(STAND_IN_FAIL="cuModuleLoadData:209").stderr


def test_a_fault_inside_a_kernel_shows_at_a_later_call(failing: Failing) -> None:
    done = failing(STAND_IN_FAULT="attention:5")
    assert done.returncode == 1
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in done.stderr


def test_a_driver_older_than_the_compiler(failing: Failing) -> None:
    done = failing(STAND_IN_DRIVER="12080")
    assert done.returncode == 2
    assert "one for the CUDA 12.8 of this driver" in done.stderr
    assert "specadvisor[gpu-cu12]" in done.stderr


def test_a_gpu_before_ampere(failing: Failing) -> None:
    done = failing(STAND_IN_CC="75", STAND_IN_NAME="Tesla T4")
    assert done.returncode == 2
    assert "compute capability 8.0 (Ampere) or newer" in done.stderr


def test_a_gpu_that_the_compiler_does_not_know(failing: Failing) -> None:
    done = failing(STAND_IN_CC="199", STAND_IN_NAME="NVIDIA Next")
    assert done.returncode == 2
    assert "one that knows sm_199" in done.stderr


def test_wrong_products_stop_before_timing(failing: Failing) -> None:
    done = failing(STAND_IN_LT_WRONG="1")
    assert done.returncode == 1
    assert "float64 reference" in done.stderr


def test_impossible_bandwidth(failing: Failing) -> None:
    done = failing(STAND_IN_BYTES_PER_S="9e12")
    assert "cannot be" in done.stderr


def test_drift(failing: Failing) -> None:
    assert "sentinel" in failing(STAND_IN_SLOW="1.4").stderr


@pytest.mark.parametrize(
    ("named", "name", "accepted"),
    [("l40s", "NVIDIA H200", "h200_sxm"), ("h200_sxm", "NVIDIA H100 80GB HBM3", "h100_sxm")],
)
def test_naming_another_gpu(failing: Failing, named: str, name: str, accepted: str) -> None:
    """Also one of the same compute capability."""
    done = failing("--gpu", named, STAND_IN_NAME=name, STAND_IN_BYTES_PER_S="3e12")
    assert done.returncode == 2
    assert f"gpu: '{named}' cannot be used; accepted: {accepted} or auto. This one is a {name}." in done.stderr


def test_another_compute_capability_under_an_unknown_name(failing: Failing) -> None:
    done = failing("--gpu", "l40s", STAND_IN_NAME="NVIDIA Next")
    assert done.returncode == 2
    assert "compute capability 90" in done.stderr


def test_half_the_bandwidth_is_not_the_named_gpu(failing: Failing) -> None:
    done = failing("--gpu", "h200_sxm", STAND_IN_NAME="NVIDIA Next", STAND_IN_BYTES_PER_S="2e12")
    assert done.returncode == 1
    assert "the wrong GPU was named" in done.stderr


def test_a_place_that_cannot_be_written(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = stand_in.command("--quick", "--out", str(tmp_path / "file" / "profile.json"))
    assert done.returncode == 2
    assert "not writable" in done.stderr


@pytest.mark.parametrize(
    ("capability", "name"), [("80", "NVIDIA A30"), ("86", "NVIDIA A10"), ("89", "NVIDIA L4"), ("120", "NVIDIA Next")]
)
def test_every_attention_variant_fits_the_shared_memory(stand_in: StandIn, capability: str, name: str) -> None:
    text = (
        "from specadvisor.calibration import driver\nfrom specadvisor.calibration.attention_bench import Attention\n"
        "from specadvisor.calibration.attention_kernel import VARIANTS\nfrom specadvisor.calibration.operands import Bench\n"
        "with driver.opened() as device:\n"
        "    bench = Bench(device)\n"
        "    limit = device.attributes['shared_bytes_per_block']\n"
        "    for v in VARIANTS:\n"
        "        driver.Module(b'\\177ELF').kernel(v.name, v.threads, v.shared_bytes).blocks_per_sm()\n"
        "result = [limit, max(v.shared_bytes for v in VARIANTS)]"
    )
    limit, largest = stand_in.python(text, STAND_IN_CC=capability, STAND_IN_NAME=name)  # type: ignore[misc]
    assert largest <= limit


@pytest.mark.parametrize(("driver", "extra"), [("13000", "[gpu]'"), ("12080", "[gpu-cu12]'")])
def test_without_nvrtc_the_extra_for_this_driver_is_named(stand_in: StandIn, driver: str, extra: str) -> None:
    text = (
        "import sys\nfrom specadvisor.errors import MissingDependency\n"
        "sys.modules['cuda.bindings.nvrtc'] = None\n"
        "from specadvisor.calibration import compiler\n"
        "try:\n    compiler.version(); result = ''\nexcept MissingDependency as error:\n    result = str(error)"
    )
    assert str(stand_in.python(text, STAND_IN_DRIVER=driver)).endswith(f"pip install 'specadvisor{extra}")


def test_interrupt_leaves_nothing(stand_in: StandIn, tmp_path: Path) -> None:
    text = (
        "from specadvisor.calibration import entry\nfrom specadvisor.cli.app import main\nreal = entry.run_on_gpu\n"
        "def announced(*arguments):\n    print('measuring', flush=True)\n    return real(*arguments)\n"
        "entry.run_on_gpu = announced\nmain()"
    )
    command = [sys.executable, "-c", text, "calibrate", "--out", str(tmp_path / "out")]
    environment = stand_in.environment(STAND_IN_SLEEP_MS="4")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None and process.stdout.readline() == "measuring\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert errors.strip() == "specadvisor: interrupted, nothing was written"
    assert not (tmp_path / "out").exists()


def test_a_failed_write_leaves_the_old_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specadvisor.calibration.save import write_together

    old = {tmp_path / "a.csv": "old rows", tmp_path / "a.json": "old profile"}
    write_together(old)
    real = Path.write_text

    def failing_write(self: Path, text: str, **options: str) -> int:
        if ".json" in self.name:
            raise OSError("disk full")
        return real(self, text, **options)

    monkeypatch.setattr(Path, "write_text", failing_write)
    with pytest.raises(OSError, match="disk full"):
        write_together(dict.fromkeys(old, "new"))
    assert {path: path.read_text() for path in old} == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.json"]
