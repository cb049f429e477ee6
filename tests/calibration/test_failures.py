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


def test_an_unknown_name_is_noted(stand_in: StandIn) -> None:
    notes = measure(stand_in, "result = run().notes", STAND_IN_NAME="NVIDIA H200 Prototype")
    assert "the driver calls this GPU 'NVIDIA H200 Prototype', a name that h200_sxm does not list" in notes[0]  # type: ignore[index]
    assert measure(stand_in, "result = run().notes", STAND_IN_NAME="NVIDIA H200 MIG 1g.18gb") == []


def test_a_place_that_cannot_be_written(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = stand_in.command("--quick", "--out", str(tmp_path / "file" / "profile.json"))
    assert done.returncode == 2
    assert "not writable" in done.stderr


def measure(stand_in: StandIn, code: str, **settings: str) -> object:
    """The result of a run of two small sections in a process of its own."""
    text = (
        "from specadvisor.calibration import driver, gpu_run, plan\nfrom specadvisor.errors import SpecadvisorError\n"
        "from specadvisor.hardware import load_gpu\n"
        "full = plan.make_plan(90, quick=True)\n"
        "small = plan.Plan(tuple(s for s in full.sections if s.name in ('launch floor', 'GEMM bf16', 'GEMM fp8')))\n"
        "def run():\n"
        "    with driver.opened() as device:\n"
        "        gpu = load_gpu('h200_sxm')\n"
        "        return gpu_run.run_on_gpu(device, gpu, small, 'vllm', lambda s, w: None, cool_down_s=0.0, warm_up_s=0.0)\n"
    )
    return stand_in.python(text + code, **settings)


def test_throttling_is_retried_once(stand_in: StandIn) -> None:
    result = measure(
        stand_in, "r = run(); result = [len(r.rows), r.notes]", STAND_IN_THROTTLE="0x40", STAND_IN_THROTTLE_READS="1"
    )
    assert result[0] > 30  # type: ignore[index]


def test_lasting_throttling_stops(stand_in: StandIn) -> None:
    code = "try:\n    run(); result = 'finished'\nexcept SpecadvisorError as error:\n    result = str(error)"
    assert "throttled twice" in str(measure(stand_in, code, STAND_IN_THROTTLE="0x48"))


def test_a_power_cap_is_recorded_but_accepted(stand_in: StandIn) -> None:
    result = measure(stand_in, "result = run().conditions['clocks']", STAND_IN_THROTTLE="0x4")
    assert result["GEMM bf16"]["power_capped"] is True  # type: ignore[index]


def test_throttling_is_seen_under_its_old_name(stand_in: StandIn) -> None:
    code = "try:\n    run(); result = 'finished'\nexcept SpecadvisorError as error:\n    result = str(error)"
    assert "throttled twice" in str(measure(stand_in, code, STAND_IN_THROTTLE="0x8", STAND_IN_OLD_NVML="1"))


def test_a_mig_slice_is_known_by_its_own_uuid(stand_in: StandIn) -> None:
    result = measure(stand_in, "r = run(); result = [r.conditions['nvml'], r.notes]", STAND_IN_MIG="1")
    facts, notes = result  # type: ignore[misc]
    assert facts["mig"] is True
    assert facts["power_limit_w"] == 700
    assert "MIG is on: the profile describes this slice, not the whole GPU" in notes


@pytest.mark.parametrize(
    ("others", "expected"), [("0", []), ("2", ["2 other process(es) use this GPU: times may be too long"])]
)
def test_processes_of_a_container_are_listed_under_foreign_numbers(stand_in: StandIn, others: str, expected: list[str]) -> None:
    assert measure(stand_in, "result = run().notes", STAND_IN_OTHERS=others) == expected


def test_a_cublaslt_of_another_cuda_leaves_the_rest_measured(stand_in: StandIn) -> None:
    code = "r = run(); result = [sorted({x.operator for x in r.rows}), r.notes]"
    operators, notes = measure(stand_in, code, STAND_IN_LT_CREATE="1")  # type: ignore[misc]
    assert operators == ["launch"]
    assert "status 1" in notes[0]
    assert "pip install 'specadvisor[gpu]'" in notes[0]


def test_a_cublaslt_without_any_kernel_for_this_gpu(stand_in: StandIn) -> None:
    code = "r = run(); result = [sorted({x.operator for x in r.rows}), r.notes]"
    operators, notes = measure(stand_in, code, STAND_IN_LT_UNSUPPORTED="-1")  # type: ignore[misc]
    assert "gemm" in operators  # fp8 is still there
    assert notes == ["GEMM bf16: not measured, cuBLASLt 13.1.0 has no kernel for it on this GPU"]


@pytest.mark.parametrize(("version", "formats"), [("120600", ["bf16", "fp8"]), ("120900", ["bf16", "fp8", "fp8_block"])])
def test_an_older_cublaslt_lacks_formats_not_the_run(stand_in: StandIn, version: str, formats: list[str]) -> None:
    code = (
        "plans = [plan.make_plan(90, quick=True, formats=[name]) for name in ('bf16', 'fp8', 'fp8_block')]\n"
        "small = plan.Plan(tuple(s for p in plans for s in p.sections if s.operator == 'gemm'))\n"
        "r = run(); result = [sorted({x.format for x in r.rows if x.operator == 'gemm'}), r.notes]"
    )
    found, notes = measure(stand_in, code, STAND_IN_LT_VERSION=version)  # type: ignore[misc]
    assert found == formats
    assert len(notes) == 3 - len(formats)


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


def test_a_format_without_kernel_is_noted(stand_in: StandIn) -> None:
    code = "r = run(); result = [sorted({x.format for x in r.rows if x.operator == 'gemm'}), r.notes]"
    formats, notes = measure(stand_in, code, STAND_IN_LT_UNSUPPORTED="0")  # type: ignore[misc]
    assert formats == ["bf16"]
    assert len(notes) == 1
    assert "GEMM fp8: not measured" in notes[0]


def test_without_cublaslt_everything_else_is_measured(stand_in: StandIn) -> None:
    code = "r = run(); result = [sorted({x.operator for x in r.rows}), r.notes]"
    operators, notes = measure(stand_in, code, SPECADVISOR_CUBLASLT="/nowhere/libcublasLt.so")  # type: ignore[misc]
    assert operators == ["launch"]
    assert "GEMM bf16: not measured, cuBLASLt was not found (pip install 'specadvisor[gpu]')" in notes


def test_little_free_memory_skips_what_does_not_fit(stand_in: StandIn) -> None:
    code = "r = run(); result = [len([x for x in r.rows if x.operator == 'gemm']), r.notes]"
    rows, notes = measure(stand_in, code, STAND_IN_FREE_BYTES="2.5e8")  # type: ignore[misc]
    assert rows > 0
    assert "GEMM bf16 10240x8192: the weight does not fit into free memory, not measured" in notes


def test_small_weights_rotate_past_five_caches_or_say_so(stand_in: StandIn) -> None:
    """512 x 512 bf16 is 0.5 MB: 501 copies and one more are 5 x 50 MB. 64 x 64 would need 32 000."""
    code = (
        "points = tuple(plan.GemmPoint('bf16', 8, n, n) for n in (512, 64))\n"
        "small = plan.Plan((plan.Section('GEMM bf16', 'gemm', points, 1.0),))\n"
        "r = run(); result = [[x.sets for x in r.rows if x.auto], r.notes]"
    )
    sets, notes = measure(stand_in, code)  # type: ignore[misc]
    assert (sets[0] - 1) * 512 * 512 * 2 >= 5 * (50 << 20) and sets[1] == 1024
    assert len(notes) == 1 and "GEMM bf16 64x64: 1024 copies are less than 5 times the L2 cache" in notes[0]


@pytest.mark.parametrize(("driver", "extra"), [("13000", "[gpu]'"), ("12080", "[gpu-cu12]'")])
def test_without_nvrtc_the_extra_for_this_driver_is_named(stand_in: StandIn, driver: str, extra: str) -> None:
    text = (
        "import sys\nfrom specadvisor.errors import MissingDependency\n"
        "sys.modules['cuda.bindings.nvrtc'] = None\n"
        "from specadvisor.calibration import compiler\n"
        "try:\n    compiler.version(); result = ''\nexcept MissingDependency as error:\n    result = str(error)"
    )
    assert str(stand_in.python(text, STAND_IN_DRIVER=driver)).endswith(f"pip install 'specadvisor{extra}")


def test_a_foreign_library_is_not_cublaslt(stand_in: StandIn) -> None:
    code = "r = run(); result = [sorted({x.operator for x in r.rows}), r.notes]"
    foreign = str(stand_in.libraries / "libnvidia-ml.so.1")
    operators, notes = measure(stand_in, code, SPECADVISOR_CUBLASLT=foreign)  # type: ignore[misc]
    assert operators == ["launch"]
    assert f"{foreign} lacks cuBLASLt's functions" in notes[0] and "correct SPECADVISOR_CUBLASLT" in notes[0]
    text = "from specadvisor.calibration.freshness import local_cublas\nresult = local_cublas()"
    assert stand_in.python(text, SPECADVISOR_CUBLASLT=foreign) == ""


def test_what_a_plan_leaves_out_is_said(stand_in: StandIn) -> None:
    done = stand_in.command("--dry-run", "--quick", "--gpu", "b200_sxm", "--model", "deepseek-v3", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr
    assert "left out, to end within 15 s: " in done.stderr and "all of GEMM nvfp4" in done.stderr
    assert "about 15 s in all" in done.stderr
    code = "small = plan.Plan(small.sections[:1], left_out=('left out',))\nresult = run().notes"
    assert measure(stand_in, code) == ["left out"]


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
