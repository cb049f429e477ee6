"""Which engine kernels a plan gets, from what is installed."""

from __future__ import annotations

import pytest

from specadvisor.calibration.engine_plan import attention_kernel, with_engine_sections
from specadvisor.calibration.plan import make_plan
from specadvisor.model import load_model

ALL = {"torch", "vllm", "vllm.vllm_flash_attn", "flashinfer", "sgl_kernel", "flash_attn"}


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    packages = set(ALL)
    monkeypatch.setattr("specadvisor.calibration.engine_plan.installed", lambda module: module in packages)
    monkeypatch.setattr("specadvisor.calibration.engine_plan._visible_gpus", lambda: 1)
    return packages


@pytest.mark.parametrize(
    ("engine", "kv_format", "names"),
    [
        ("vllm", "bf16", ["FlashAttention-2", "FlashAttention-3", "trtllm-gen", "FlashAttention-2"]),
        ("vllm", "fp8", ["FlashInfer paged", "FlashAttention-3", "trtllm-gen", "XQA"]),
        ("sglang", "bf16", ["FlashInfer paged", "FlashAttention-3", "trtllm-gen", "FlashInfer paged"]),
        ("sglang", "fp8", ["FlashInfer paged", "FlashAttention-3", "trtllm-gen", "FlashInfer paged"]),
        ("tensorrt_llm", "bf16", [None, "XQA", "trtllm-gen", "XQA"]),
        ("transformers", "bf16", ["FlashAttention-2"] * 4),
        ("transformers", "fp8", [None] * 4),
        ("llama_cpp", "bf16", [None] * 4),
    ],
)
def test_attention_follows_engine_gpu_and_cache(engine: str, kv_format: str, names: list[str | None]) -> None:
    found = [attention_kernel(engine, capability, kv_format) for capability in (89, 90, 100, 120)]
    assert [kernel.name if kernel else None for kernel in found] == names


def test_only_flash_attention_2_loses_packing() -> None:
    """Such rows with several query tokens stay out of the fit."""
    packs = {(e, c): attention_kernel(e, c) for e in ("vllm", "sglang") for c in (80, 90, 100, 120)}
    assert {key for key, kernel in packs.items() if kernel and not kernel.packs} == {("vllm", 80), ("vllm", 120)}


def test_without_its_package_the_next_kernel_or_none(there: set[str]) -> None:
    there.discard("flash_attn")
    kernel = attention_kernel("transformers", 90)
    assert kernel and kernel.name == "torch attention"
    there.discard("torch")
    assert attention_kernel("vllm", 90) is None


def sections(engine: str, capability: int, quick: bool = False) -> list[str]:
    plan = with_engine_sections(make_plan(capability, quick=quick), engine, capability, quick)
    return [s.name for s in plan.sections if s.operator == "engine"]


def test_sections() -> None:
    both = ["engine attention bf16", "engine attention fp8"]
    assert sections("vllm", 90) == [*both, "engine w4a16", "engine moe"]
    assert sections("vllm", 100) == [*both, "engine w4a16"]  # there vLLM's mixture is FlashInfer's
    assert sections("sglang", 90) == [*both, "engine w4a16"]
    assert sections("vllm", 90, quick=True) == ["engine attention bf16"]
    assert sections("llama_cpp", 90) == []


def test_several_gpus_add_the_engines_all_reduce_and_the_others_as_time_allows(
    monkeypatch: pytest.MonkeyPatch, there: set[str]
) -> None:
    """One run takes processes of 25 s: the engine's own over the most GPUs is worth them."""
    monkeypatch.setattr("specadvisor.calibration.engine_plan._visible_gpus", lambda: 6)
    plan = with_engine_sections(make_plan(90), "vllm", 90)
    (section,) = (s for s in plan.sections if s.name == "all-reduce")
    assert section.points == (("vllm", 4),)
    assert "3 of 4 points of all-reduce" in plan.left_out[0]
    wanted = [p for c in plan.chunks if c.section == "all-reduce" for p in c.points]
    assert wanted == [("vllm", 4), ("vllm", 2), ("nccl", 4), ("nccl", 2)]
    there.discard("vllm")
    plan = with_engine_sections(make_plan(90), "vllm", 90)
    assert next(s.points for s in plan.sections if s.name == "all-reduce") == (("nccl", 4),)


@pytest.mark.parametrize("gpus", [1, 2, 8])
@pytest.mark.parametrize("model", [None, "deepseek-v3", "llama-3.1-8b"])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_engines_and_gpus_keep_to_the_time(
    monkeypatch: pytest.MonkeyPatch, gpus: int, model: str | None, capability: int
) -> None:
    monkeypatch.setattr("specadvisor.calibration.engine_plan._visible_gpus", lambda: gpus)
    architecture = load_model(model) if model else None
    for quick, limit_s in ((False, 60.0), (True, 15.0)):
        plan = make_plan(capability, quick=quick, model=architecture)
        for engine in ("vllm", "sglang"):
            whole = with_engine_sections(plan, engine, capability, quick)
            assert whole.seconds <= limit_s
            names = {s.name for s in whole.sections}
            assert {"bandwidth", "GEMM bf16", "engine attention bf16"} <= names
            assert ("all-reduce" in names) == (gpus > 1 and not quick)


def test_our_stand_in_gives_way_to_the_engines_kernel() -> None:
    plan = with_engine_sections(make_plan(90, quick=True), "vllm", 90, quick=True)
    (section,) = (s for s in plan.sections if s.operator == "engine")
    assert {1, 2, 4, 8, 16, 64} <= {p.query_tokens for p in section.points}
    assert "all of attention bf16" in plan.left_out[0]
    assert all(p.split for p in section.points)
