"""What the machine is like and what it lacks: names, throttling, MIG, cuBLASLt, memory: the run goes on or says why."""

from __future__ import annotations

import pytest
from stand_in_process import StandIn


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


def test_an_unknown_name_is_noted(stand_in: StandIn) -> None:
    notes = measure(stand_in, "result = run().notes", STAND_IN_NAME="NVIDIA H200 Prototype")
    assert "the driver calls this GPU 'NVIDIA H200 Prototype', a name that h200_sxm does not list" in notes[0]  # type: ignore[index]
    assert measure(stand_in, "result = run().notes", STAND_IN_NAME="NVIDIA H200 MIG 1g.18gb") == []


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


def test_throttling_is_retried_once(stand_in: StandIn) -> None:
    result = measure(
        stand_in, "r = run(); result = [len(r.rows), r.notes]", STAND_IN_THROTTLE="0x40", STAND_IN_THROTTLE_READS="1"
    )
    assert result[0] > 30  # type: ignore[index]
