"""First lines that must not promise: what no engine runs, expected losses, drafters alike, GPUs that only draft."""

from __future__ import annotations

import re

import numpy as np
import pytest

from specadvisor.acceptance import Survival
from specadvisor.advise.advisor import Advisor
from specadvisor.errors import InputError
from specadvisor.report.console import plain
from specadvisor.report.data import option_rows
from specadvisor.report.tables import explanation_blocks, recommendation_blocks


def text(answer) -> str:
    return " ".join(answer.headline)


@pytest.mark.parametrize("modifier", ["sequoia", "judge-decoding", "d-cut", "spec-vocab", "speculative-pipeline"])
def test_a_modifier_that_no_engine_has_is_not_run(small, modifier):
    answer = small.recommend([1, 8], drafters="eagle3", modifiers=[modifier])
    assert answer.headline[0].startswith(f"eagle3 + {modifier} cannot be run here: ")
    assert "in no serving engine yet; priced as published" in answer.headline[0]
    assert "Run " not in text(answer)
    assert not any("vllm:" in line or "3 boots" in line for line in answer.measurement_plan)
    (row,) = answer.drafters
    assert row.availability == "cannot run here" and row.support.startswith("none: ")
    assert list(answer.to_dict()["cannot_run"]) == [f"eagle3 + {modifier}"]


@pytest.mark.parametrize("kind", ["hydra", "rest", "lookahead", "token_recycling"])
def test_a_family_that_no_engine_has_is_priced_by_name_only(small, kind):
    answer = small.recommend([1], drafters=kind)
    assert f"{kind} is in no serving engine yet; priced as published" in answer.headline[0]
    assert "Run " not in text(answer)
    both = small.recommend([1], drafters=[kind, "draft_model"])
    assert both.schedule.drafter == "draft_model"
    assert kind not in small.recommend([1]).curves


def test_a_trace_says_what_the_engine_cannot_run(small):
    report = plain(explanation_blocks(small.explain("hydra", 2, 1)))
    assert "cannot be run here: hydra is in no serving engine yet" in report
    assert "cannot be run" not in plain(explanation_blocks(small.explain("eagle3", 2, 1)))


def test_a_family_of_another_engine_is_refused_with_its_name(small):
    with pytest.raises(InputError, match="Engines that run it: sglang"):
        small.recommend([1], drafters="domino")


def a_guess(first: float) -> Survival:
    """An uncertain acceptance that nobody measured."""
    return Survival(first * 0.6 ** np.arange(16.0), 0.5, "a guess")


def test_an_expected_loss_is_said_in_the_same_line(small):
    one = small.recommend([1], drafters="eagle3", acceptance=a_guess(0.15))
    assert one.curves["eagle3"].choices[0].trial
    assert one.headline[0].startswith("No k of eagle3 is expected to gain at concurrency 1; a trial of k = ")
    assert "Run " not in text(one)
    assert one.to_dict()["choices"]["eagle3"][0]["trial"] and one.to_dict()["cannot_run"] == {}


def test_tiers_that_are_expected_to_lose_are_marked(small):
    losing = small.recommend([1, 32, 256], 512, 512, drafters="eagle3", acceptance=a_guess(0.15))
    assert losing.headline[0].startswith("No k of eagle3 is expected to gain; a trial would decide. Expected throughput")
    mixed = small.recommend([1, 32, 64, 256], 512, 512, drafters="eagle3", acceptance=a_guess(0.3))
    tried = [tier for tier in mixed.schedule.tiers if tier.k and min(tier.at_low.mid, tier.at_high.mid) < 1.0]
    assert mixed.headline[0].startswith("Run eagle3 by load") and 0 < len(tried) < len(mixed.schedule.tiers)
    assert mixed.headline[0].count("(a trial)") == len(tried)


def test_all_that_cannot_be_told_apart_are_named():
    answer = Advisor("qwen3-8b", "h100_sxm").recommend([1], 1024, 512)
    line = next(line for line in answer.headline if "not distinguishable" in line)
    mine = answer.curves[answer.schedule.drafter].choices[0].gain
    alike = {
        name
        for name, curve in answer.curves.items()
        if name != answer.schedule.drafter and curve.choices[0].gain.low <= mine.mid <= curve.choices[0].gain.high
    }
    assert len(alike) > 2 and alike == set(re.split(r": | \(Drafters", line)[1].split(", "))
    assert f"from {len(alike)} others" in line


def test_gains_are_per_gpu_wherever_they_are_shown(small):
    """8 stages and the drafter in the place of one GPU: whole-machine gains stand nowhere."""
    answer = small.recommend([1, 32], 1024, 512, drafters="eagle3", modifiers=["speculative-pipeline"])
    curve = answer.curves["eagle3 + speculative-pipeline"]
    assert curve.evaluation.extra_gpus == 8 and curve.evaluation.gpu_share == pytest.approx(1 / 9)
    assert [choice.k for choice in curve.choices] == [0, 0]
    for row in option_rows(answer.ranking):
        plain_row = next(o for o in answer.plain if o.concurrency == row["concurrency"])
        gpus = 1 + row["extra_gpus"]
        whole = row["throughput_tok_s"] / plain_row.throughput_tok_s
        assert row["throughput_speedup"] == pytest.approx(whole / gpus)
        assert row["throughput_speedup"] <= 1.0
    assert "gain in throughput per GPU; tok/s of all, with 8 a replica that only draft" in " ".join(
        plain(recommendation_blocks(answer)).split()
    )
    table = small.sweep("eagle3", [4], [1], modifiers=["speculative-pipeline"])
    traced = small.explain("eagle3", 4, 1, modifiers=["speculative-pipeline"])
    assert float(table.throughput_speedup.iloc[0]) == pytest.approx(traced.throughput_speedup.mid)
    assert traced.throughput_tok_s == pytest.approx(9 * traced.throughput_speedup.mid * traced.throughput_tok_s_without)
    assert "worth less than more replicas" in answer.guidelines[0].because


def test_latency_is_not_shared_among_gpus(small):
    answer = small.recommend([1], drafters="eagle3", modifiers=["speculative-pipeline"], objective="latency")
    assert answer.best.k > 0 and answer.best.speedup.mid > 1.5


def test_misfits_of_a_modifier_are_left_out_with_the_reason(small):
    answer = small.recommend([1], modifiers=["draft-vocab=16000"])
    assert "eagle3 + draft-vocab=16000" in answer.curves and "ngram" not in str(answer.curves.keys())
    assert answer.excluded["ngram"] == "draft-vocab 16000 takes a drafter with an output head"
    with pytest.raises(InputError, match="whole rows from 256"):
        small.recommend([1], modifiers=["draft-vocab=many"])
    with pytest.raises(InputError, match="modifier"):
        small.recommend([1], modifiers=["draft-vocabulary=16000"])


def test_eagle2_as_a_chain_is_eagle(small):
    answer = small.recommend([1], drafters=["eagle", "eagle2"])
    one, two = answer.curves["eagle"], answer.curves["eagle2"]
    assert one.survival.s.tolist() == two.survival.s.tolist()
    assert {row.availability for row in answer.drafters} == {"published for this model"}
    assert "eagle's" in small.recommend([1]).excluded["eagle2"]


def test_typical_acceptance_is_lossy_when_sampling_only(small):
    cold, hot = (small.recommend([1], drafters="eagle3", modifiers=["typical-acceptance"], temperature=t) for t in (0.0, 0.7))
    assert "is lossy" not in text(cold) and "is lossy" in text(hot)


def test_training_and_engine_stand_beside_the_comparison(small):
    report = plain(recommendation_blocks(small.recommend([1, 8, 32], 1024, 512)))
    needs = report.partition("What they take")[2].partition("\n\n")[0]
    assert "high: 800K samples x 6 epochs, length 3,072" in needs and "vllm >= 0.20: dflash" in needs
    assert max(len(line) for line in needs.splitlines()) <= 100
