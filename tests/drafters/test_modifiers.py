"""Modifiers: parsing, composition, and their price and effect in countable cases."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.drafters import load_drafter
from specadvisor.drafters.modifiers import MODIFIERS, Modifier, parse_modifier
from specadvisor.drafters.modifiers.adaptive import easy_share, flat_survival, length_at_budget
from specadvisor.drafters.modifiers.base import acceptance_length, with_accepted_factor, with_length_factor
from specadvisor.drafters.modifiers.vocabulary import coverage
from specadvisor.errors import InputError
from specadvisor.model import load_model
from specadvisor.model.architecture import Architecture
from specadvisor.step.target import target_step

from ..fake_engine import FakeEngine
from .conftest import MakeDeployment

VALUES = {
    "draft-vocab": "32000", "tree": "topk4/steps4/tokens8", "draft-window": "2048", "draft-format": "fp8", "head-format": "fp8",
    "draft-tp": "1", "combine": "ngram",
}  # fmt: skip


def modifier(id_: str) -> Modifier:
    return parse_modifier(f"{id_}={VALUES[id_]}" if id_ in VALUES else id_)


@pytest.mark.parametrize("id_", MODIFIERS)
def test_text_round_trips(id_: str) -> None:
    one = modifier(id_)
    assert parse_modifier(str(one)) == one


def test_aliases_and_errors() -> None:
    assert parse_modifier("FR-Spec=16384") == parse_modifier("draft-vocab=16384")
    assert parse_modifier("block_verification").id == "block-verification"
    for text in ("block-verfication", "draft-vocab", "pearl=3", "", "=4"):
        with pytest.raises(InputError):
            parse_modifier(text)
    with pytest.raises(InputError, match="block-verification"):
        parse_modifier("block-verfication")


@pytest.mark.parametrize(
    ("kind", "text"),
    [("ngram", "draft-vocab=32000"), ("eagle3", "draft-vocab=40000"), ("eagle3", "draft-vocab=many"),
     ("dflash", "tree=topk4/steps4/tokens8"),
     ("ngram", "draft-format=fp8"), ("eagle3", "draft-format=fp5"), ("eagle3", "ssd=2"),
     ("medusa", "draft-window=2048"),
     ("eagle3", "draft-vocab=\u00b2\u00b2\u00b2\u00b2\u00b2"), ("eagle3", "draft-window=\u00b2\u00b2\u00b2"),
     ("eagle3", "draft-tp=\u00b2"), ("eagle3", "speculative-pipeline=\u00b2"), ("eagle3", "tree=topk2/steps2/tokens64"),
     ("eagle3", "combine=eagle3"), ("eagle3", "d-cut=0"), ("eagle3", "draft-tp=zero")],
)  # fmt: skip
def test_values_that_do_not_go_with_the_drafter(kind: str, text: str, qwen8b: Architecture) -> None:
    with pytest.raises(InputError):
        load_drafter(kind, qwen8b).with_modifiers([parse_modifier(text)])


@pytest.mark.parametrize(
    ("kind", "text", "engine"),
    [("ngram", "block-verification", "vllm"), ("eagle3", "ssd", "vllm"), ("eagle3", "pearl", "vllm"),
     ("dflash", "confidence-scheduler", "vllm"), ("eagle3", "traversal-verification", "sglang"),
     ("ngram", "variational-training", "vllm"), ("ngram", "overlap-scheduling", "vllm"), ("ngram", "combine=suffix", "vllm"),
     ("eagle3", "relaxed-acceptance", "tensorrt_llm"), ("eagle3", "tree=topk4/steps4/tokens8", "vllm")],
)  # fmt: skip
def test_illegal_pairs_have_a_reason(kind: str, text: str, engine: str, qwen8b: Architecture) -> None:
    reason = load_drafter(kind, qwen8b).with_modifiers([parse_modifier(text)]).legality(qwen8b, FakeEngine(id=engine))  # type: ignore[arg-type]
    assert reason


def test_only_the_lossy_ones_say_so(qwen8b: Architecture) -> None:
    assert {id_ for id_, m in MODIFIERS.items() if m.lossy} == {"judge-decoding", "typical-acceptance", "relaxed-acceptance"}
    drafter = load_drafter("eagle3", qwen8b)
    assert not drafter.with_modifiers([modifier("block-verification")]).lossy
    assert drafter.with_modifiers([modifier("judge-decoding")]).lossy
    for id_, m in MODIFIERS.items():
        assert ("LOSSY" in m(VALUES.get(id_, "")).facts.legality) == m.lossy


def test_engines_that_do_not_ship_it_are_named(qwen8b: Architecture) -> None:
    drafter = load_drafter("eagle3", qwen8b).with_modifiers([modifier("block-verification")])
    assert drafter.not_shipped(FakeEngine(id="vllm")) == ()  # type: ignore[arg-type]
    assert "only in vllm, sglang" in drafter.not_shipped(FakeEngine(id="llama_cpp"))[0]  # type: ignore[arg-type]
    sequoia = load_drafter("eagle3", qwen8b).with_modifiers([modifier("sequoia")])
    assert "in no serving engine yet; priced as published" in sequoia.not_shipped(FakeEngine())[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["hydra", "rest", "lookahead", "token_recycling"])
def test_a_family_that_no_engine_has_is_priced_and_says_so(kind: str, qwen8b: Architecture) -> None:
    drafter = load_drafter(kind, qwen8b)
    without = FakeEngine(unsupported=frozenset({kind, "medusa"}))
    assert drafter.legality(qwen8b, without) is None  # type: ignore[arg-type]
    assert drafter.not_shipped(without) == (f"{kind} is in no serving engine yet; priced as published",)  # type: ignore[arg-type]
    assert load_drafter("medusa", qwen8b).legality(qwen8b, without)  # type: ignore[arg-type]


def test_typical_acceptance_is_exact_at_temperature_zero(qwen8b: Architecture) -> None:
    drafter = load_drafter("medusa", qwen8b).with_modifiers([modifier("typical-acceptance")])
    assert not drafter.lossy and replace(drafter, temperature=0.7).lossy
    assert load_drafter("eagle3", qwen8b).with_modifiers([modifier("judge-decoding")]).lossy


@pytest.mark.parametrize(
    "pair", [("d-cut", "confidence-scheduler"), ("draft-vocab=16000", "draft-vocab=8000"), ("ssd", "pearl")]
)
def test_one_modifier_of_a_sort(pair: tuple[str, str], qwen8b: Architecture) -> None:
    with pytest.raises(InputError, match="there already"):
        load_drafter("dspark", qwen8b).with_modifiers([parse_modifier(text) for text in pair])


class TestAcceptance:
    S = np.array([0.75, 0.5625, 0.421875])

    def effect(self, text: str, kind: str, model: Architecture, k: int = 3, **at: object) -> float:
        """AL(k) with the modifier over AL(k) without, of a drafter that is listed to 16 positions of 0.75 each."""
        drafter = load_drafter(kind, model).with_modifiers([parse_modifier(text)])
        s = 0.75 ** np.arange(1.0, 17.0)
        return float(acceptance_length(drafter.survival(s, **at)[:k]) / acceptance_length(s[:k]))  # type: ignore[arg-type]

    def test_block_verification_needs_temperature_and_a_block(self, qwen8b: Architecture) -> None:
        """2403.10444 prints +8.3% for blocks of 8; a block of one is one token."""
        assert self.effect("block-verification", "eagle3", qwen8b, temperature=0.0) == 1.0
        by_k = [self.effect("block-verification", "eagle3", qwen8b, k, temperature=1.0) for k in (1, 3, 8)]
        assert by_k[0] == 1.0 and by_k[2] == pytest.approx(1.083, rel=1e-6)
        assert 1.01 < by_k[1] < by_k[2]

    def test_the_rows_that_a_head_had_count_as_covered(self, qwen8b: Architecture) -> None:
        """One row less of a 32,000-row head costs nothing to speak of; half of them what Table 14 says of half."""
        assert self.effect("draft-vocab=31999", "eagle3", qwen8b) == pytest.approx(1.0, abs=1e-4)
        assert self.effect("draft-vocab=32000", "eagle3", qwen8b) == 1.0
        one = self.effect("draft-vocab=16384", "eagle3", qwen8b, k=1)
        assert one == pytest.approx((1 + 0.75 * coverage(16384, "mixed", 151936) / coverage(32000, "mixed", 151936)) / 1.75)
        assert coverage(31999, "mixed", 32000) == pytest.approx(1.0, abs=1e-4)
        mix = coverage(32768, "coding:0.5,multilingual:0.5", 151936)
        assert mix == pytest.approx(0.5 * 0.947 + 0.5 * 0.77)

    def test_speculative_vocabulary_wins_back_what_the_head_missed(self, qwen8b: Architecture, deepseek: Architecture) -> None:
        """Published: +4.3 to +8.1% throughput over EAGLE-3 with 32k rows; nothing to win where the head is whole."""
        assert 1.04 < self.effect("spec-vocab", "eagle3", qwen8b) < 1.081
        assert self.effect("spec-vocab", "mtp", deepseek) == pytest.approx(1.0)

    def test_vocabulary_coverage_by_language(self, deepseek: Architecture) -> None:
        """Published: -5.5% AL on average at 32k rows, about -10% on multilingual, RAG and summarisation."""
        average = self.effect("draft-vocab=32768", "mtp", deepseek)
        assert average == pytest.approx(1 - 0.055, abs=0.015)
        assert self.effect("draft-vocab=32768", "mtp", deepseek, workload="summarization") == pytest.approx(0.90, abs=0.03)
        assert self.effect("draft-vocab=32768", "mtp", deepseek, workload="multilingual") < average
        sizes = [self.effect(f"draft-vocab={n}", "mtp", deepseek) for n in (4096, 16384, 32768, 65536, 129000)]
        assert sizes == sorted(sizes) and sizes[-1] == pytest.approx(1.0, abs=0.001)

    def test_length_factors(self, qwen8b: Architecture) -> None:
        """Each holds at the draft length of its source."""
        assert self.effect("variational-training", "eagle3", qwen8b, k=7) == pytest.approx(1.085, rel=1e-6)
        assert self.effect("combine=suffix", "eagle3", qwen8b) == pytest.approx(1.05, rel=1e-6)
        assert self.effect("relaxed-acceptance", "eagle3", qwen8b) == pytest.approx(1.08, rel=1e-6)
        assert self.effect("draft-format=nvfp4", "eagle3", qwen8b) == pytest.approx(0.98, rel=1e-6)
        assert self.effect("draft-format=fp8", "eagle3", qwen8b) == 1.0

    def test_effects_compose(self, qwen8b: Architecture) -> None:
        two = [modifier("variational-training"), modifier("block-verification")]
        drafter = load_drafter("eagle3", qwen8b).with_modifiers(two)
        s = 0.75 ** np.arange(1.0, 9.0)
        one = load_drafter("eagle3", qwen8b).with_modifiers(two[:1]).survival(s, temperature=1.0)
        both = acceptance_length(drafter.survival(s, temperature=1.0)) / acceptance_length(one)
        assert float(both) == pytest.approx(1.083, rel=1e-6)

    @given(s=st.lists(st.floats(0.05, 0.99), min_size=1, max_size=10), factor=st.floats(0.5, 2))
    def test_a_factor_keeps_a_survival_curve(self, s: list[float], factor: float) -> None:
        curve = np.array(sorted(s, reverse=True))
        moved = with_length_factor(curve, factor)
        assert np.all((moved >= 0) & (moved <= 1)) and np.all(np.diff(moved) <= 1e-12)
        wanted = factor * acceptance_length(curve)
        if 1.0 < wanted < len(curve) + 0.99:
            assert acceptance_length(moved) == pytest.approx(wanted, rel=1e-3)

    def test_accepted_factor(self) -> None:
        assert float(acceptance_length(with_accepted_factor(self.S, 1.5)) - 1) == pytest.approx(1.5 * self.S.sum(), rel=1e-6)


class TestAdaptiveVerification:
    def test_a_flat_curve_has_no_easy_share(self) -> None:
        p, _, hard = easy_share(0.7 ** np.arange(1.0, 6))
        assert p == pytest.approx(0.0, abs=0.01) and hard == pytest.approx(0.7, abs=0.01)

    def test_rising_conditionals_need_one(self) -> None:
        p, _, _ = easy_share(np.cumprod([0.53, 0.6, 0.67, 0.7, 0.73]))
        assert p > 0.1

    def test_full_budget_is_the_whole_curve(self) -> None:
        s = np.cumprod([0.72, 0.64, 0.69, 0.7])
        assert length_at_budget(s, 4, 4.0) == pytest.approx(1 + s.sum())
        assert length_at_budget(s, 4, 0.0) == 1.0

    def test_competition_beats_cutting_every_request(self) -> None:
        s = np.cumprod([0.53, 0.6, 0.67, 0.7, 0.73, 0.75])
        assert length_at_budget(s, 6, 3.0) > 1 + s[:3].sum()

    @given(budget=st.floats(0, 6), more=st.floats(0, 2))
    def test_length_grows_with_diminishing_returns(self, budget: float, more: float) -> None:
        s = np.cumprod([0.6, 0.65, 0.7, 0.7, 0.72, 0.72, 0.7, 0.7])
        a, b, c = (length_at_budget(s, 8, budget + i * more) for i in (0, 1, 2))
        assert a <= b + 1e-12 <= c + 2e-12
        assert c - b <= b - a + 1e-9

    def test_only_a_length_is_known(self) -> None:
        s = flat_survival(np.array([1.0, 4.0]), np.array([1.7, 2.5]))
        assert len(s) == 4 and 1 + s.sum() == pytest.approx(2.5)

    def test_shares_fall_with_load_as_published(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        """D-Cut on a dense 8B: at low load nothing is cut, at batch 64 the cut wins (published .65x -> .98x)."""
        dep = deploy(qwen8b)
        plain = load_drafter("dflash", qwen8b)
        cut = plain.with_modifiers([modifier("d-cut")])
        s = np.cumprod([0.8] + [0.85] * 14)
        batch = np.array([1.0, 64.0, 256.0])
        full, chosen = (d.round(dep, batch, 15.0, 1024.0, 1 + s.sum(), s) for d in (plain, cut))
        assert chosen.acceptance_length is not None
        assert np.all(np.diff(chosen.verified_tokens) <= 0) and chosen.verified_tokens[-1] < 16

        def rate(done: object, length: object) -> np.ndarray:
            verify = target_step(dep, batch, done.verified_tokens, 1024.0, host=False).total_s  # type: ignore[attr-defined]
            return np.asarray(length / (verify + done.draft.total_s + done.overhead.total_s))  # type: ignore[attr-defined]

        gain = rate(chosen, chosen.acceptance_length) / rate(full, 1 + s.sum())
        assert np.all(gain >= 1 - 1e-9) and gain[-1] > 1.05

    def test_scheduler_grid_equals_points(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("dspark", qwen8b).with_modifiers([modifier("confidence-scheduler")])
        k, batch, context = np.array([3.0, 7.0])[:, None, None], np.array([1.0, 128.0])[:, None], np.array([512.0, 4096.0])
        s = np.cumprod([0.73] * 7)
        grid = drafter.round(deploy(qwen8b), batch, k, context, 2.5, s)
        one = drafter.round(deploy(qwen8b), 128.0, 7.0, 512.0, 2.5, s)
        assert grid.verified_tokens.shape == (2, 2, 2)
        assert float(one.verified_tokens) == grid.verified_tokens[1, 1, 0]


class TestPrices:
    def test_a_reduced_head_costs_its_rows(self, deepseek: Architecture, deploy: MakeDeployment, count_bytes: None) -> None:
        plain = load_drafter("mtp", deepseek)
        small = plain.with_modifiers([modifier("draft-vocab")])
        dep = deploy(deepseek)
        heads = [float(d.round(dep, 1.0, 3.0, 100.0, 2.0).draft["head"]) for d in (plain, small)]
        assert heads == [3 * 2 * 7168 * 129280, 3 * 2 * 7168 * 32000]
        assert small.resident_bytes - plain.resident_bytes == 2 * 7168 * 32000

    def test_speculative_vocabulary_reads_published_elements(self, qwen8b: Architecture) -> None:
        """Qwen3-8B: 88 M elements a step."""
        drafter = load_drafter("eagle3", qwen8b).with_modifiers([modifier("spec-vocab")])
        assert drafter.head is not None and drafter.head.parameters / 1e6 == pytest.approx(88, abs=0.5)

    def test_window_caps_draft_attention(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        plain = load_drafter("draft_model", qwen8b)
        windowed = plain.with_modifiers([modifier("draft-window")])
        dep = deploy(qwen8b)
        far, capped = (float(d.round(dep, 16.0, 3.0, 60000.0, 2.0).draft["attention"]) for d in (plain, windowed))
        assert capped < 0.3 * far
        near = [float(d.round(dep, 16.0, 3.0, 500.0, 2.0).draft["attention"]) for d in (plain, windowed)]
        assert near[0] == pytest.approx(near[1])

    def test_fp8_halves_the_drafter(self, qwen8b: Architecture) -> None:
        plain = load_drafter("eagle3", qwen8b)
        small = plain.with_modifiers([modifier("draft-format")])
        assert small.resident_bytes == pytest.approx(plain.resident_bytes / 2, rel=1e-3)

    def test_overlap_hides_the_rounds_host_time(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep = deploy(qwen8b)
        plain = load_drafter("dflash", qwen8b)
        before, after = (
            d.round(dep, 32.0, 7.0, 1000.0, 4.0) for d in (plain, plain.with_modifiers([modifier("overlap-scheduling")]))
        )
        assert float(before.overhead.total_s) == pytest.approx(1e-3)
        assert float(after.overhead.total_s) == 0.0

    def test_hidden_drafts_cost_the_misses_only(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        big = load_model("llama-3.1-70b")
        dep = deploy(big, tp=4)
        plain = load_drafter("draft_model:llama-3.2-1b", big)
        hidden = plain.with_modifiers([parse_modifier("ssd=0.9")])
        base, one, many = (d.round(dep, b, 7.0, 500.0, 4.0) for d, b in ((plain, 1.0), (hidden, 1.0), (hidden, 16.0)))
        assert float(one.draft.total_s) == pytest.approx(0.1 * float(base.draft.total_s), rel=1e-6)
        assert one.extra_gpus == 1
        whole = float(plain.round(dep, 16.0, 7.0, 500.0, 4.0).draft.total_s)
        assert float(many.draft.total_s) >= (1 - 0.9**16) * whole * (1 - 1e-9)

    def test_pearl_hits_when_all_are_accepted(self, deploy: MakeDeployment) -> None:
        big = load_model("llama-3.1-70b")
        dep = deploy(big, tp=4)
        plain = load_drafter("draft_model:llama-3.2-1b", big)
        s = np.array([0.9, 0.8, 0.5])
        base, hidden = (
            d.round(dep, 1.0, 3.0, 500.0, 3.2, s).draft.total_s for d in (plain, plain.with_modifiers([modifier("pearl")]))
        )
        assert float(hidden) == pytest.approx(0.5 * float(base), rel=1e-6)

    def test_pipeline_fills_and_ticks(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep = deploy(qwen8b)
        drafter = load_drafter("eagle3", qwen8b).with_modifiers([modifier("speculative-pipeline")])
        done = drafter.round(dep, 1.0, 7.0, 500.0, 4.0)
        step = float(target_step(dep, 1.0, 1.0, 500.0, host=False).total_s)
        assert float(done.verified_tokens) == 1.0
        assert float(done.draft.total_s) == pytest.approx(step * 3 / 8, rel=0.2)
        assert done.extra_gpus == 8  # 8 stages and the drafter in the place of one GPU

    def test_hidden_drafts_miss_more_when_sampling(self, deploy: MakeDeployment) -> None:
        """Up to 96% of the rounds fall back at batch 16."""
        big = load_model("llama-3.1-70b")
        dep = deploy(big, tp=4)
        hidden = load_drafter("draft_model:llama-3.2-1b", big).with_modifiers([parse_modifier("ssd")])
        cold, hot = (float(replace(hidden, temperature=t).round(dep, 1.0, 7.0, 500.0, 4.0).draft.total_s) for t in (0.0, 1.0))
        assert hot > 1.5 * cold
        assert 1 - parse_modifier("ssd").probability(1.0) ** 16 == pytest.approx(0.96, abs=0.01)

    def test_sequoia_drafts_wide(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        plain = load_drafter("eagle3", qwen8b)
        wide = plain.with_modifiers([modifier("sequoia")])
        s = np.cumprod([0.75] * 6)
        for k, more in ((1.0, False), (6.0, True)):
            chain, tree = (float(d.round(deploy(qwen8b), 64.0, k, 500.0, 3.0, s).draft.total_s) for d in (plain, wide))
            assert (tree > chain * 1.01) is more

    def test_sequoia_shrinks_the_tree_with_load(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("eagle3", qwen8b).with_modifiers([modifier("sequoia")])
        s = np.cumprod([0.75] * 6)
        done = drafter.round(deploy(qwen8b), np.array([1.0, 64.0, 512.0]), 6.0, 500.0, 3.0, s)
        assert np.all(np.diff(done.verified_tokens) <= 0) and done.verified_tokens[0] > done.verified_tokens[-1]


def test_values_are_shown_as_they_are_accepted() -> None:
    shown = [example for m in MODIFIERS.values() for example in re.findall(r"such as ([\w-]+=[\w/]+)", m.takes)]
    assert {parse_modifier(example).id for example in shown} >= {"tree", "draft-vocab", "draft-tp", "combine"}
    assert {parse_modifier(example).tree.best_first for example in shown if example.startswith("tree=")} == {True, False}


def test_vllm_quantises_only_a_head_that_is_shared(qwen8b: Architecture, deepseek: Architecture) -> None:
    modifier = parse_modifier("head-format=fp8")
    own = load_drafter("eagle3", qwen8b).with_modifiers([modifier]).legality(qwen8b, FakeEngine())  # type: ignore[arg-type]
    shared = load_drafter("mtp", deepseek).with_modifiers([modifier]).legality(deepseek, FakeEngine())  # type: ignore[arg-type]
    assert own and "has one of its own" in own and shared is None
