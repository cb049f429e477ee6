"""Each published pitfall speaks up in the case that has it, and only there."""

from __future__ import annotations

import pytest

from specadvisor.advise.advisor import Advisor

from .conftest import EAGLE3_32B, model_file


def warnings(advisor: Advisor, **question: object) -> str:
    question = {"concurrency": [1], "drafters": "eagle3"} | question
    return " | ".join(advisor.recommend(**question).warnings)  # type: ignore[arg-type]


def test_a_plain_dense_case_has_none_of_them(small):
    assert warnings(small, acceptance="al:2.2@3") == ""


def test_experts_at_low_batch():
    assert "experts" in warnings(Advisor("qwen3-30b-a3b", "h100_sxm"))


def test_experts_are_counted_for_the_k_chosen_at_that_load():
    """The k of concurrency 1, not the larger one of a higher load."""
    advisor = Advisor("gpt-oss-120b", "h100_sxm", tp=2)
    answer = advisor.recommend([1, 32], 1024, 1024, drafters="eagle3", acceptance="cumulative:0.7,0.45,0.3")
    first, second = (answer.schedule.k_at(c) for c in (1, 32))
    assert 0 < first < second
    text = next(w for w in answer.warnings if w.startswith("MoE at concurrency 1:"))
    assert f"verifying {first + 1} tokens" in text


def test_hybrid_states_and_prefix_cache():
    hybrid = Advisor(model_file("nvidia--Qwen3.6-27B-NVFP4_config.json"), "h100_sxm", weights="bf16")
    text = warnings(hybrid, drafters="mtp")
    assert "recurrent state" in text and "of the pool" not in text
    assert "prefix-cache" in text
    sglang = Advisor("qwen3.5-27b", "h200_sxm", engine="sglang").recommend([1], 1024, 1024, drafters="mtp")
    assert any("47% of the pool (--mamba-full-memory-ratio)" in text for text in sglang.warnings)


def test_first_token(small):
    assert "Time to first token" in warnings(small, drafters="draft_model", input_tokens=4096, output_tokens=256)
    assert "Time to first token" not in warnings(small, drafters="ngram", input_tokens=4096, output_tokens=256)


def test_queue(tight):
    assert "requests queue" in warnings(tight, input_tokens=4096, output_tokens=256, concurrency=[1, 256])


def test_no_graphs():
    assert "CUDA graphs" in warnings(Advisor("qwen3-8b", "h200_sxm", graphs=False))


def test_power_limit():
    assert "Clocks at" in warnings(Advisor("qwen3-8b", "rtx_3090", memory_fraction=0.95, power_limit_w=150))


def test_sampling_with_a_draft_model(small):
    assert "temperature 0" in warnings(small, drafters="draft_model", temperature=1.0)


@pytest.mark.parametrize(("first", "says"), [(0.15, "is a bug"), (0.35, "broken pairing"), (0.7, "")])
def test_poor_first_position(tight, first, says):
    text = warnings(tight, drafters=f"eagle3:{EAGLE3_32B}", acceptance=f"conditional:{first},0.5,0.5")
    assert (says in text) if says else ("pairing" not in text and "bug" not in text)


def test_kernel_without_packing_or_splitting():
    assert "cliff from k = 0 to 1" in warnings(Advisor("qwen3-8b", "rtx_4090"))


def test_server_default_on_running_requests():
    assert "by default" in warnings(Advisor("qwen3-8b", "h200_sxm", engine="sglang"), concurrency=[512])


def test_quantised_checkpoint_and_its_own_head():
    advisor = Advisor(model_file("nvidia--Qwen3.6-27B-NVFP4_config.json"), "b200_sxm")
    assert "0% acceptance" in warnings(advisor, drafters="mtp")


def test_gpus_that_only_draft_are_paid_for():
    advisor = Advisor("qwen3-32b", "h200_sxm", tp=4)
    question = {"concurrency": [1], "drafters": "draft_model", "acceptance": "conditional:0.8,0.8,0.8", "modifiers": ["ssd"]}
    answer = advisor.recommend(**question)
    curve = next(iter(answer.curves.values()))
    assert "drafts on 1 more GPU" in " ".join(answer.warnings)
    assert curve.gain.mid == pytest.approx(curve.evaluation.throughput_speedup.mid)
    whole = curve.evaluation.throughput_tok_s / curve.evaluation.baseline_throughput_tok_s
    assert curve.gain.mid == pytest.approx(4 / 5 * whole)


def test_queue_counts_what_runs_without_a_drafter(tight):
    answer = tight.recommend([1, 256], 4096, 256, drafters="eagle3")
    text = next(w for w in answer.warnings if "requests queue" in w)
    assert f"{answer.plain[-1].batch:.0f} do without a drafter" in text


def test_a_request_beyond_the_models_own_limit():
    advisor = Advisor("qwen3-8b", "h200_sxm")
    assert "longer than the model's own limit" in warnings(advisor, input_tokens=50_000, output_tokens=100)


def test_kernels_that_pay_per_row():
    advisor = Advisor("qwen3-8b", "rtx_3090", engine="llama_cpp", weights="q4_k_m")
    assert "once per row" in warnings(advisor)
