"""From fake engines to the fitted profile, what becomes of failures, and that invented times stay out of users' profiles."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_engines.loading import FOLDER, loaded
from stand_in_process import StandIn

import specadvisor
from specadvisor.calibration import engine_measure
from specadvisor.calibration.build_profile import build_profile
from specadvisor.calibration.collectives import SIZES, measure_all_reduce
from specadvisor.calibration.engine_measure import measure_section
from specadvisor.calibration.engine_moe import MoePoint
from specadvisor.calibration.plan import AttentionPoint, GemmPoint, Section
from specadvisor.calibration.rows import Row
from specadvisor.calibration.run import Run
from specadvisor.hardware import Gpu, load_gpu
from specadvisor.hardware.kernel_profile import KernelProfile, read_kernel_profile, write_kernel_profile
from specadvisor.kernels import all_reduce_s, attention_s, distinct_experts, gemm_s, moe_s
from specadvisor.serving.attention import AttentionBackend

L2 = 1 << 17  # small, so that small operands are read from memory; the memory is as slow, so that reading them takes time
PLACES = ((4, 512), (2, 1024), (4, 1024))
POINTS: dict[str, tuple[Any, ...]] = {
    "engine attention bf16": tuple(AttentionPoint(b, q, s, g, 1) for b, s in PLACES for g in (2, 4) for q in (1, 4)),
    "engine attention fp8": tuple(AttentionPoint(b, q, s, g, 1, 128, "fp8") for b, s in PLACES for g in (2, 4) for q in (1, 4)),
    "engine w4a16": tuple(GemmPoint("w4a16", m, n, k) for n, k in ((1024, 2048), (3072, 1024)) for m in (1, 4, 8, 16, 32, 64)),
    "engine moe": tuple(MoePoint(t, h, 128, 16, 2) for h in (256, 384) for t in (1, 2, 4, 8, 16, 32)),
    "all-reduce": (("vllm", 2), ("nccl", 2), ("vllm", 4), ("nccl", 4)),
}


@pytest.fixture(autouse=True, scope="module")
def short_messages() -> Iterator[None]:
    """Up to 2 MB: the fakes add them for real."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_measure, "measure_all_reduce", partial(measure_all_reduce, sizes=SIZES[:6]))
        yield


@pytest.fixture(autouse=True)
def fakes() -> Iterator[Any]:
    with loaded() as kernels:
        yield kernels


def measured(name: str, engine: str = "vllm", capability: int = 90) -> tuple[list[Row], list[str]]:
    points = POINTS[name]
    if name == "all-reduce":
        points = tuple((engine if who == "vllm" else who, ranks) for who, ranks in points)
    return measure_section(Section(name, "engine", points, 1.0), lambda: None, engine, capability, L2)


def small_gpu() -> Gpu:
    return replace(load_gpu("h200_sxm"), l2_bytes=L2, memory_bytes_per_s=4.8e10, link_bytes_per_s=4.5e10, kernels=None)


def own_rows() -> list[Row]:
    """Our own attention kernel, measured at more points than any engine's and slower."""
    places = [(b, s, q) for b in (2, 4, 8, 16) for s in (2048, 4096, 8192) for q in (1, 4)]
    shape: dict[str, Any] = {
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 128,
        "tile_rows": 16,
        "sets": 8,
        "kernel": "own split-KV kernel",
    }
    return [
        Row("attention", "bf16", 20.0 + b * s * 1024 / 2e4, batch=b, context=s, query_tokens=q, stand_in=True, **shape)
        for b, s, q in places
    ]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> KernelProfile:
    """As written and read back."""
    with loaded():
        sections = [measured(name) for name in POINTS]
    assert [notes for _, notes in sections] == [[]] * len(POINTS)
    rows = [*own_rows(), *(row for section, _ in sections for row in section)]
    fitted, _ = build_profile(Run(rows), small_gpu())
    return read_kernel_profile(write_kernel_profile(fitted, tmp_path_factory.mktemp("profile") / "profile.json"))


@pytest.mark.parametrize(
    ("operator", "format", "engine", "kernel"),
    [
        ("attention", "bf16", "vllm", "FlashAttention-3"),
        ("attention", "fp8", "vllm", "FlashAttention-3"),
        ("gemm", "w4a16", "vllm", "Machete"),
        ("moe", "bf16", "vllm", "fused_experts"),
        ("all_reduce", "any", "vllm", "tensor-parallel group"),
        ("all_reduce", "any", "nccl", "NCCL"),
    ],
)
def test_the_engine_finds_its_own_kernel(profile: KernelProfile, operator: str, format: str, engine: str, kernel: str) -> None:
    entry = profile.find(operator, format, engine)
    assert (entry.engine, entry.kernel, entry.state) == (engine, kernel, "measured")
    assert entry.median_error < 0.1


def test_predictions_follow_the_engines_clock(profile: KernelProfile, fakes: Any) -> None:
    """At shapes between the measured ones; the fakes' times are a floor and bytes over a bandwidth."""
    from torch import distributed

    gpu = replace(small_gpu(), kernels=profile)
    tiles = AttentionBackend("fa3", (128,))
    cache, weight = 3 * 900 * 2 * 128, 2048 * 2048 * (0.5 + 2 / 128)
    experts = float(distinct_experts(3, 16, 2)) * 3 * 320 * 128 * 2
    message = 2 * 2**20 / 3
    read = {
        "attention": (attention_s(gpu, 3, 3, 900, 4, 1, 128, backend=tiles), 2 * cache),
        "8-bit attention": (attention_s(gpu, 3, 3, 900, 4, 1, 128, "fp8", backend=tiles), cache),
        "product": (gemm_s(gpu, 12, 2048, 2048, "w4a16"), weight),
        "mixture": (moe_s(gpu, 3, 320, 128, 16, 2), experts),
    }
    for name, (seconds, size) in read.items():
        assert float(seconds) == pytest.approx(fakes.FLOOR_S + size / fakes.BYTES_PER_S, rel=0.15), name
    wanted = distributed.FLOOR_S + message * 1.5 / distributed.LINK_BYTES_PER_S
    assert float(all_reduce_s(gpu, message, 4)) == pytest.approx(wanted, rel=0.15)


def test_our_own_kernel_is_what_an_engine_without_one_gets_as_a_sibling(profile: KernelProfile) -> None:
    entry = profile.find("attention", "bf16", "llama_cpp")
    assert (entry.engine, entry.kernel, entry.state) == ("any", "own split-KV kernel", "sibling")
    assert entry.median_error > 0.02


def test_rows_say_what_ran() -> None:
    rows, _ = measured("engine attention bf16", "sglang")
    assert {(r.engine, r.kernel, r.page_size, r.stand_in, r.auto) for r in rows} == {
        ("sglang", "FlashAttention-3", 1, False, True)
    }
    assert {r.engine_version for r in rows} == {"sgl_kernel"}  # no version: the fake is no installed distribution
    rows, _ = measured("engine attention bf16", "vllm", 80)
    assert {(r.query_tokens == 1, r.auto) for r in rows} == {(True, True), (False, False)}
    rows, _ = measured("all-reduce", "sglang")
    assert {(r.engine, r.ranks, r.calls) for r in rows} == {(e, n, 20) for e in ("sglang", "nccl") for n in (2, 4)}


@pytest.mark.parametrize(
    ("defect", "name", "told"),
    [
        ("raises flash_attn_varlen_func", "engine attention bf16", "RuntimeError: no kernel image is available"),
        ("scale", "engine attention bf16", "does not match its float64 reference"),
        ("raises machete_mm", "engine w4a16", "RuntimeError: no kernel image is available"),
        ("zero point", "engine w4a16", "does not match its float64 reference"),
        ("normalised weights", "engine moe", "does not match its float64 reference"),
        ("raises initialize_model_parallel", "all-reduce", "no kernel image is available"),
    ],
)
def test_a_failure_becomes_a_note(fakes: Any, defect: str, name: str, told: str) -> None:
    fakes.planted.add(defect)
    rows, notes = measured(name)
    assert {r.engine for r in rows} == ({"nccl"} if name == "all-reduce" else set())
    assert len(notes) == (2 if name == "all-reduce" else 1)
    assert "not measured" in notes[0] and told in notes[0] and notes[0].startswith(name)


def test_a_version_without_the_function_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm.vllm_flash_attn

    monkeypatch.delattr(vllm.vllm_flash_attn, "get_scheduler_metadata")
    rows, notes = measured("engine attention bf16")
    assert rows == []
    assert notes[0].startswith("engine attention bf16: not measured further, ImportError: cannot import name 'get_sched")


def test_a_version_with_another_signature_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers import fused_moe

    monkeypatch.setattr(fused_moe, "fused_experts", lambda x, w1, w2, topk_output, config: x)
    rows, notes = measured("engine moe")
    assert rows == []
    assert "TypeError" in notes[0] and "hidden_states" in notes[0]


def test_without_torch_there_is_a_note() -> None:
    with loaded():
        sys.modules["torch"] = None  # type: ignore[assignment]
        rows, notes = measured("engine w4a16")
    assert rows == []
    assert notes[0].startswith("engine w4a16: not measured further, ModuleNotFoundError")


def test_what_does_not_fit_into_memory_is_left_out() -> None:
    import torch

    torch.cuda.FREE_BYTES = 3_000_000
    rows, notes = measured("engine attention bf16")
    assert {(r.batch, r.context) for r in rows} == {(4, 512), (2, 1024)}
    assert notes == ["FlashAttention-3, batch 4 x 1024 keys: not measured, too little free memory"]
    torch.cuda.FREE_BYTES = 12_000_000
    rows, notes = measured("engine moe")
    assert {r.hidden for r in rows} == {256}
    assert notes == ["fused_experts, 16 experts of 384 x 128: not measured, too little free memory"]


def test_the_fakes_cannot_be_imported_by_a_user() -> None:
    root = str(Path(specadvisor.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), root])}
    done = subprocess.run([sys.executable, "-c", "import torch"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ImportError: this torch is a test's fake")


def test_with_a_stand_in_driver_their_rows_fit_no_law(stand_in: StandIn) -> None:
    text = (
        "from specadvisor.calibration import driver, gpu_run, plan, save\nfrom specadvisor.hardware import load_gpu\n"
        "points = tuple(plan.AttentionPoint(1, q, 1024, 2, 1, 64) for q in (1, 4))\n"
        "engine = plan.Plan((plan.Section('engine attention bf16', 'engine', points, 1.0),))\n"
        "with driver.opened() as device:\n"
        "    run = gpu_run.run_on_gpu(device, load_gpu('h200_sxm'), engine, 'vllm', lambda s, w: None, warm_up_s=0.0)\n"
        "result = [run.stand_in, run.notes, save.rows_text(run).splitlines()[1:]]"
    )
    root = str(Path(specadvisor.__file__).parents[1])
    invented, notes, rows = stand_in.python(text, PYTHONPATH=os.pathsep.join([root, str(FOLDER)]))  # type: ignore[misc]
    assert invented and notes == []
    assert len(rows) == 2 and all(line.startswith("stand_in_attention,bf16") for line in rows)
