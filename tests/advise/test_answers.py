"""What the answer says in cases that users asked about."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.advise.headline import _off
from specadvisor.advise.recommendation import Load, Schedule, Tier
from specadvisor.ranges import Range
from specadvisor.report.console import plain
from specadvisor.report.tables import recommendation_blocks

FIVE_POSITIONS = "cumulative:0.72,0.50,0.34,0.23,0.15"


def headline(answer) -> str:
    return " ".join(answer.headline)


@pytest.fixture(scope="module")
def train_first():
    """A model for which no drafter of the leading kind is published, on kernels that do not pack at 512-wide heads."""
    return Advisor("gemma-4-26b-a4b", "rtx_pro_6000", "sglang").recommend([1, 16], 4000, 500)


@pytest.fixture(scope="module")
def tight_pool():
    return Advisor("qwen3-32b", "h100_sxm").recommend(
        [1, 16, 64], 1024, 512, drafters="eagle3", acceptance=FIVE_POSITIONS
    )  # fmt: skip


def test_k_falls_from_four_to_off_with_load():
    """Qwen3-32B with an EAGLE-3 head, four measured positions, the pool that vLLM printed."""
    loads = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    answer = Advisor("qwen3-32b", "h100_96gb", kv_pool_tokens=69232).recommend(
        loads, 145, 200, drafters="eagle3", acceptance="cumulative:0.65,0.37,0.21,0.12"
    )
    assert [tier.k for tier in answer.schedule.tiers] == [4, 3, 2, 0]
    assert all(b.low == a.high + 1 for a, b in pairwise(answer.schedule.tiers))
    for part in ("k = 4", "k = 3", "k = 2", "off"):
        assert part in answer.headline[0]
    assert [answer.chosen(c).k for c in range(len(loads))] == [answer.schedule.k_at(users) for users in loads]
    first = answer.guidelines[0]
    assert "nothing binds yet" not in first.because
    assert "less than the noise of 2%" in first.because


def test_no_k_beyond_the_measured_positions_for_less_than_the_noise(tight_pool):
    assert {choice.k for choice in tight_pool.curves["eagle3"].choices} == {5}
    assert "goes beyond" not in headline(tight_pool)


def test_a_k_beyond_the_measured_positions_is_said():
    answer = Advisor("qwen3-8b", "h200_sxm").recommend([1], drafters="eagle3", acceptance="cumulative:0.9,0.85")
    assert answer.chosen(0).k > 2
    assert f"k = {answer.chosen(0).k} goes beyond what you measured (k = 2)" in headline(answer)


def test_first_guideline_counts_one_batch(tight_pool):
    first = tight_pool.guidelines[2].guidelines[0]
    assert first.numbers["batch"] < first.numbers["batch_without_drafter"]
    assert first.k == int(first.numbers["ridge_rows"] / first.numbers["batch"]) - 1


def test_a_loaded_drafter_holds_all_that_the_targets_cache_loses(tight_pool):
    without, loaded = tight_pool.memory[0], tight_pool.memory[-1]
    parts = loaded.drafter_bytes + loaded.verify_bytes
    assert without.kv_pool_bytes - loaded.kv_pool_bytes == pytest.approx(parts)
    assert loaded.verify_bytes > 1e9
    assert loaded.reserve_bytes == without.reserve_bytes
    per_token = without.kv_pool_bytes / without.kv_pool_tokens
    held = without.kv_pool_bytes - loaded.kv_pool_tokens * per_token
    assert tight_pool.schedule.tiers[0].held_bytes == pytest.approx(held)


def test_more_requests_than_tokens_over_length_are_explained_by_windows():
    answer = Advisor("gpt-oss-120b", "h100_sxm").recommend([1], 1000, 500, drafters="eagle3")
    bill = answer.memory[0]
    assert bill.sequences > bill.kv_pool_tokens / answer.load.context
    assert "sliding window" in plain(recommendation_blocks(answer)).replace("\n  ", " ")


def test_rows_at_other_workloads_are_evidence_of_a_kind():
    """Draft models have no published chat row, but rows at other workloads; PARD has none at all."""
    llama = Advisor("llama-3.1-70b", "a100_sxm_80gb", tp=4)
    answer = llama.recommend([1, 32], 500, 300, drafters=["draft_model", "ngram"], workload="chat")
    assert answer.schedule.drafter == "draft_model"
    unseen = llama.recommend([1, 32], 500, 300, drafters=["pard", "ngram"], workload="chat")
    assert unseen.schedule.drafter == "ngram"
    assert "pard expects more" in headline(unseen)
    assert "no published measurement" in headline(unseen)


def test_what_has_to_be_trained_is_measured_once_it_is():
    answer = Advisor("gemma-4-26b-a4b", "rtx_pro_6000").recommend([1, 16], 4000, 500)
    name = answer.schedule.drafter
    assert f"Run {name} (once trained)" in answer.headline[0]
    assert "Until then ngram can run (no training): 1." in headline(answer)
    before, after, ratio = answer.measurement_plan
    assert before.startswith(f"before you train {name}: run ngram")
    assert "--acceptance ngram=" in before
    assert after.startswith(f"once {name} is trained: run {name}")
    assert ratio.endswith(f"drafter={name}")


def test_nothing_that_loses_is_offered_until_a_drafter_is_trained(train_first):
    """On SGLang a look-up verifies k + 1 rows of every request: it gains nowhere here."""
    assert "(once trained)" in train_first.headline[0]
    assert "Until then" not in headline(train_first)


def test_a_cliff_of_the_widest_heads_is_said(train_first):
    assert any("does not split a long cache" in text for text in train_first.warnings)
    second, third = train_first.guidelines[0].guidelines[1:3]
    assert (second.k, third.k, third.numbers["next_aligned_k"]) == (0, None, None)
    assert "does not apply" in third.says


def test_experts_end_what_is_free_of_a_mixture():
    found = Advisor("qwen3-30b-a3b", "h100_sxm").explain("eagle3", 3, 1).guidelines
    first = found.guidelines[0]
    assert (found.binding, first.k) == (1, 0)
    assert "of 128 experts are read" in first.says
    assert "a step without drafts reads 8" in first.says
    assert first.numbers["distinct_experts_step"] == pytest.approx(8)


def test_a_lossy_drafter_is_named_so_in_the_first_lines(small):
    answer = small.recommend([1], drafters="eagle3", acceptance="al:2.2@3", modifiers=["judge-decoding"])
    assert "is lossy" in answer.headline[2]


@pytest.mark.parametrize(("engine", "says"), [("vllm", "more rows cost no more"), ("llama_cpp", "another kernel")])
def test_kernels_that_unpack_per_row_say_what_follows(engine, says):
    weights = {"vllm": "w4a16", "llama_cpp": "q4_k_m"}[engine]
    answer = Advisor("qwen3-8b", "rtx_4090", engine, weights=weights).recommend([1], drafters="eagle3")
    text = next(w for w in answer.warnings if "unpack the weights" in w)
    assert says in text


def test_a_drafter_that_is_off_shows_no_acceptance_length(small):
    answer = small.recommend([256], 512, 64, drafters="eagle3", acceptance="conditional:0.05,0.05")
    table = next(b for b in recommendation_blocks(answer) if b.title.startswith("Drafters compared"))
    assert table.rows[0][1:3] == ("-", "-")
    assert table.rows[0][4] == "off"


def test_k_if_loaded_is_said_for_each_range_that_is_off_as_the_schedule_has_it():
    one, ranges = Range(1.0, 1.0, 1.0), ((1, 8, 3, 3), (9, 10, 0, 5), (11, 16, 3, 3), (17, 32, 0, 3))
    tiers = [Tier(low, high, k, loaded, one, one, 2e9, 1e-3, 0.9) for low, high, k, loaded in ranges]
    (text,) = _off(Schedule("x", tuple(tiers), 17), Load((1, 32), 1024))
    assert text.endswith("; where it is loaded, k = 5 at 9-10, k = 3 at 17-32 is better than idling.")


@pytest.mark.parametrize(("gpu", "shared"), [("gb10", True), ("rtx_4090", False)])
def test_memory_that_the_cpu_uses_too_is_said(gpu: str, shared: bool):
    answer = Advisor("qwen3-0.6b", gpu).recommend([1], drafters="ngram")
    assert any("shares its memory with the CPU" in line for line in answer.assumptions) == shared
