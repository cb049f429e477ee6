"""The whole answer on real models."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.advise.recommendation import NO_DRAFTER
from specadvisor.errors import DoesNotFit, InputError

from .conftest import EAGLE3_32B

# Per-position acceptance that vLLM printed for tr-qwen3-32b-eagle3-instructcoder at k = 6 and concurrency 1
# (benchmarks/data/sweeps, k and load ladder on an H100 partition with 94-96 GB).
INSTRUCTCODER = "cumulative:0.6319,0.354,0.186,0.0884,0.0437,0.0226"
LOADS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


@pytest.fixture(scope="module")
def ladder():
    """The instruction-coding load with the KV pool that vLLM printed without a drafter."""
    advisor = Advisor("qwen3-32b", "h100_96gb", kv_pool_tokens=69232)
    return advisor.recommend(
        LOADS, 150, 200, drafters=f"eagle3:{EAGLE3_32B}", acceptance=INSTRUCTCODER, workload="coding"
    )  # fmt: skip


def test_k_falls_with_load_as_measured(ladder):
    """Measured best: 4 or 5 up to concurrency 32 (3 within 3% of it), 3 at 64, 2 at 80 and 128, none at 256."""
    chosen = [ladder.schedule.k_at(c) for c in LOADS]
    assert chosen == sorted(chosen, reverse=True)
    assert all(k in (3, 4) for k in chosen[:6])
    assert chosen[6] in (2, 3)
    assert chosen[7:] == [2, 0]


def test_every_part_of_the_answer_names_the_same_k(ladder):
    data = ladder.to_dict()
    curve = ladder.curves[ladder.schedule.drafter]
    for column, users in enumerate(LOADS):
        k = ladder.schedule.k_at(users)
        assert curve.choices[column].k == k == ladder.chosen(column).k == ladder.guidelines[column].k
        shown = data["choices"][ladder.schedule.drafter][column]
        assert shown["k"] == k in shown["plateau"]
        assert shown["cautious_k"] <= k


def test_gains_are_close_to_the_measured_ones(ladder):
    """Throughput speed-up at k = 3 (the ladder's middle); measured 1.949, 1.849, 1.519 at concurrency 1, 8, 64."""
    for users, measured in ((1, 1.949), (8, 1.849), (64, 1.519)):
        found = next(o for o in ladder.at(users) if o.k == 3)
        assert found.throughput_speedup.mid == pytest.approx(measured, rel=0.08)
        assert found.throughput_speedup.low < measured < found.throughput_speedup.high


def test_at_256_the_pool_binds_and_there_is_no_gain_to_speak_of(ladder):
    """Measured: 0.94 at k = 1 and falling with k, because fewer requests run with the drafter loaded."""
    best = ladder.chosen(LOADS.index(256))
    plain = ladder.plain[-1]
    assert plain.batch == 256
    assert ladder.schedule.k_at(256) == 0
    assert 128 < ladder.schedule.crossover <= 256
    speculating = [o for o in ladder.at(256) if o.k > 0]
    assert all(o.batch < 256 for o in speculating)
    assert best.verdict != "gain"
    assert any("requests queue" in text for text in ladder.warnings)


def test_every_load_ranks_plain_decoding_too(ladder):
    for users in LOADS:
        ranking = ladder.at(users)
        assert [o.objective for o in ranking] == sorted((o.objective for o in ranking), reverse=True)
        zero = next(o for o in ranking if o.k == 0)
        assert (zero.drafter, zero.throughput_speedup.mid) == (NO_DRAFTER, 1.0)


def test_a_tier_without_drafts_still_pays_for_the_loaded_drafter(ladder):
    for tier in ladder.schedule.tiers:
        assert tier.held_bytes > 1.5e9
        assert tier.idle_s > 0
        assert tier.idle_speedup < 1.0


def test_tiers_are_contiguous_from_one_to_the_largest_load(ladder):
    tiers = ladder.schedule.tiers
    assert tiers[0].low == 1
    assert tiers[-1].high == 256
    assert all(b.low == a.high + 1 for a, b in pairwise(tiers))


def test_unknown_acceptance_is_said_beside_the_answer_and_the_command_that_helps(small):
    answer = small.recommend([1], drafters="eagle3", command="specadvisor recommend -m X")
    assert not answer.acceptance_known
    assert answer.headline[0].startswith("Run eagle3 with k = ")
    assert "not measured" in answer.headline[1]
    plan = " ".join(answer.measurement_plan)
    assert "specadvisor recommend -m X --acceptance cumulative:" in plan
    assert "specadvisor recommend -m X --anchor concurrency=1" in plan


def test_measured_acceptance_narrows_the_interval(small):
    guessed = small.recommend([1], drafters="eagle3").best.speedup
    known = small.recommend([1], drafters="eagle3", acceptance="conditional:0.7,0.68,0.66,0.64").best.speedup
    assert known.high / known.low < guessed.high / guessed.low


def test_the_default_ranks_every_legal_drafter_and_says_why_others_are_out(small):
    answer = small.recommend([1, 64])
    kinds = {row.kind for row in answer.drafters}
    assert {"eagle3", "dflash", "ngram", "draft_model"} <= kinds
    assert len(answer.drafters) == len(answer.curves)
    assert answer.best.drafter in answer.curves


def test_drafters_at_hand_are_chosen_before_catalogue_values(small):
    answer = small.recommend([1], acceptance="eagle3=conditional:0.6,0.5,0.4")
    assert answer.best.drafter == "eagle3"
    assert any("catalogue value are listed" in line for line in answer.headline)


def test_do_not_speculate_is_an_answer(small):
    answer = small.recommend([256], 512, 64, drafters="eagle3", acceptance="conditional:0.05,0.05")
    assert (answer.best.drafter, answer.best.k) == (NO_DRAFTER, 0)
    assert answer.schedule.crossover is not None
    assert any("Do not speculate" in line for line in answer.headline)
    assert "no speculation" in answer.flags("vllm")


def test_one_load_has_one_best_setting(small):
    answer = small.recommend([8], 1024, 256, drafters="eagle3", acceptance="conditional:0.8,0.75,0.7,0.65")
    first = next(o for o in answer.at(8) if o.k > 0)
    assert (answer.best.drafter, answer.best.k) == (first.drafter, first.k)
    assert answer.best.options == (first,)


def test_goodput_counts_only_settings_within_the_limits(small):
    plain = small.recommend([64], drafters="eagle3", acceptance="al:2.2@3").plain[0]
    limit = plain.tpot_s * 0.8
    answer = small.recommend([64], drafters="eagle3", acceptance="al:2.2@3", objective="goodput", max_tpot_s=limit)
    assert not answer.plain[0].meets_limits
    assert answer.plain[0].objective == 0.0
    assert answer.best.k > 0
    assert answer.best.options[0].tpot_s <= limit
    hopeless = small.recommend([64], drafters="eagle3", acceptance="al:2.2@3", objective="goodput", max_tpot_s=1e-6)
    assert hopeless.best.k == 0


def test_first_token_limit_counts_the_queue(tight):
    crowded = tight.recommend([512], 2048, 256, drafters="ngram", objective="goodput", max_ttft_s=2.0)
    assert crowded.plain[0].ttft_s > 2.0
    assert not crowded.plain[0].meets_limits


def test_latency_ranks_by_time_per_token(small):
    answer = small.recommend([32], drafters="eagle3", acceptance="al:2.2@3", objective="latency")
    ranking = answer.at(32)
    assert [o.tpot_s for o in ranking] == sorted(o.tpot_s for o in ranking)


def test_a_break_even_that_is_never_reached_is_null_in_json(small):
    answer = small.recommend([256], 512, 64, drafters="dflash2", acceptance="alpha:0.02", gpu_price=2.0, train_gpu_hours=300)
    assert answer.break_even.against[0].tokens.mid == float("inf")
    json.dumps(answer.to_dict(), allow_nan=False)


def test_what_does_not_fit_is_said_before_anything_else():
    with pytest.raises(DoesNotFit, match="needs"):
        Advisor("qwen3-32b", "rtx_3090")


def test_a_drafter_that_does_not_fit_is_left_out_with_the_reason():
    advisor = Advisor("qwen3-32b", "h100_sxm", memory_fraction=0.8)
    answer = advisor.recommend([1])
    assert any("do not fit" in reason for reason in answer.excluded.values())


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"concurrency": 0}, "concurrency"), ({"concurrency": []}, "concurrency"), ({"concurrency": "many"}, "concurrency"),
     ({"concurrency": 10**9}, "concurrency"), ({"input_tokens": -5}, "input"), ({"output_tokens": 0}, "output"),
     ({"context": 10**12}, "context"), ({"temperature": -1}, "temperature"), ({"temperature": "hot"}, "temperature"),
     ({"workload": "poetry"}, "workload"), ({"objective": "speed"}, "objective"), ({"objective": "goodput"}, "objective"),
     ({"max_ttft_s": 1.0}, "TTFT"), ({"max_tpot_s": -1.0}, "TPOT"), ({"drafters": "eagle9"}, "drafter"),
     ({"drafters": "medusa"}, "drafter"), ({"acceptance": "al:5@3", "drafters": "eagle3"}, "acceptance"),
     ({"acceptance": "conditional:1.2", "drafters": "eagle3"}, "acceptance"),
     ({"acceptance": "cumulative:0.5,0.6", "drafters": "eagle3"}, "survival"), ({"acceptance": "al:2@3"}, "acceptance"),
     ({"gpu_price": 2.0}, "break-even"), ({"modifiers": ["magic"]}, "modifier")],
)  # fmt: skip
def test_input_that_cannot_be_meant_is_refused_by_name(small, wrong, field):
    with pytest.raises(InputError, match=field):
        small.recommend(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"tp": 3}, {"tp": 0}, {"tp": -2}, {"ep": 64}, {"dp": 0}, {"memory_fraction": 1.5}, {"kv_pool_tokens": -1},
     {"kv_pool_tokens": 1e12}, {"engine": "vlm"}, {"kv": "fp3"}, {"weights": "int3"}],
)  # fmt: skip
def test_a_deployment_that_cannot_be_is_refused(wrong):
    with pytest.raises(InputError):
        Advisor("qwen3-8b", "h200_sxm", **wrong)


def test_a_request_larger_than_the_cache_does_not_fit(tight):
    with pytest.raises(DoesNotFit, match="one request of 100,100 tokens"):
        tight.recommend([8], 100_000, 100, drafters="eagle3")


def test_a_drafter_that_leaves_no_room_for_one_request_is_left_out():
    roomy = Advisor("qwen3-32b", "h100_96gb", kv_pool_tokens=40_000)
    answer = roomy.recommend([1], 20_000, 100)
    assert "does not fit a KV pool" in answer.excluded["draft_model"]
    assert "ngram" in {row.drafter for row in answer.drafters}
    with pytest.raises(DoesNotFit, match="with draft_model"):
        roomy.recommend([1], 20_000, 100, drafters="draft_model")


def test_a_limit_that_nothing_meets_is_said_with_what_comes_nearest(small):
    answer = small.recommend([8], drafters="eagle3", objective="goodput", max_tpot_s=1e-4)
    assert answer.headline[0].startswith("No setting meets the stated limits at concurrency 8: eagle3 k = ")
    assert " at 8 comes nearest with a TPOT of " in answer.headline[0]
    assert answer.headline[0].endswith("the limit is 0.1 ms.")
    assert not any(line.startswith(("Run", "Do not")) for line in answer.headline)
    assert answer.schedule.k_at(8) == 0


def test_the_limit_that_is_violated_is_the_one_named(small):
    """Any setting keeps a second per token; none reads a prompt of 4096 tokens in a millisecond."""
    limits = {"objective": "goodput", "max_tpot_s": 1.0, "max_ttft_s": 1e-3}
    text = small.recommend([8], 4096, 128, drafters="eagle3", **limits).headline[0]
    assert "comes nearest with a TTFT of " in text
    assert text.endswith("the limit is 1.0 ms.")
    assert "TPOT" not in text


def test_advice_assumes_the_limits_that_the_flags_raise():
    """SGLang speculates with 48 running requests unless told otherwise; the flags tell it."""
    question = {"drafters": "eagle3", "acceptance": "conditional:0.75,0.7,0.65"}
    tuned = Advisor("qwen3-8b", "h200_sxm", "sglang").recommend([128], **question)
    default = Advisor("qwen3-8b", "h200_sxm", "sglang", tuned_limits=False).recommend([128], **question)
    assert "--max-running-requests 128" in tuned.flags()
    assert [o.batch for o in tuned.at(128) if o.k] == [128.0] * len(tuned.curves["eagle3"].evaluation.k)
    assert {o.batch for o in default.at(128) if o.k} == {48.0}
    assert any("computed with 128" in text for text in tuned.warnings)


def test_flags_of_plain_decoding_raise_the_same_limits():
    answer = Advisor("qwen3-8b", "rtx_4090").recommend([600], drafters="eagle3", acceptance="conditional:0.1")
    assert answer.chosen(0).k == 0
    assert answer.plain[0].batch > 0
    assert "--max-num-seqs 600" in answer.flags()


def test_no_tier_loses_more_than_the_plateau(ladder):
    for tier in ladder.schedule.tiers:
        assert min(tier.at_low.mid, tier.at_high.mid) >= 0.98
    off = ladder.schedule.tiers[-1]
    assert off.k == 0
    assert off.held_bytes > 0
    assert any("should not load the drafter" in line for line in ladder.headline)


def test_what_ships_leads_what_has_to_be_trained():
    """DeepSeek-V3 carries its own head; a drafter without a published row never leads."""
    answer = Advisor("deepseek-v3", "h200_sxm", tp=8).recommend([1, 32])
    assert answer.schedule.drafter == "mtp"
    rows = {row.drafter: row.availability for row in answer.drafters}
    assert rows["mtp"] == "in the checkpoint"
    assert rows["dflash"] == "to be trained"
    assert [leader.concurrency for leader in answer.leaders] == [1, 32]


def test_published_heads_count_as_available():
    answer = Advisor("qwen3-32b", "h100_sxm").recommend()
    rows = {row.drafter: row.availability for row in answer.drafters}
    assert rows["eagle3"] == "published for this model"
    assert rows["pard"] == "to be trained"
    assert answer.schedule.drafter not in ("pard", "eagle3_1", "p_eagle", "domino")


def test_contradicting_anchors_are_said_first(small):
    anchors = ["concurrency=1,k=3,speedup=1.7", "concurrency=1,k=4,speedup=0.7"]
    answer = small.recommend([1, 8], drafters="eagle3", anchors=anchors)
    assert "contradict each other" in answer.headline[0]
    assert any("predicted" in note and "spread of 5%" in note for note in answer.anchors)


def test_memory_is_billed_at_the_smallest_and_the_largest_k_that_run():
    hybrid = Advisor("qwen3.5-27b", "rtx_3090", "llama_cpp", weights="q4_k_m")
    answer = hybrid.recommend([1, 64], drafters="mtp")
    bills = {bill.k: bill.sequences for bill in answer.memory if bill.drafter == "mtp"}
    assert set(bills) == {choice.k for choice in answer.curves["mtp"].choices}
    assert bills[min(bills)] == answer.chosen(1).batch
