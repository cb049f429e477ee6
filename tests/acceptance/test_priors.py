"""Priors: published orders and effects, mixes, exclusions."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specadvisor.acceptance import parse_mix, prior
from specadvisor.acceptance.catalogue import same_source
from specadvisor.acceptance.context import CONTEXT_LAWS, context_factor, context_law, context_note, context_sigma
from specadvisor.acceptance.effects import context_shift
from specadvisor.acceptance.priors import shipped_table
from specadvisor.errors import InputError
from specadvisor.ids import DRAFTERS, WORKLOADS


@pytest.mark.parametrize("kind", DRAFTERS)
def test_every_kind_and_workload_has_a_prior(kind: str) -> None:
    for workload in WORKLOADS:
        curve = prior(kind, workload)
        assert curve.k_max == 16
        assert not curve.known
        assert 0.1 < curve.sigma < 1.2
        assert "catalogue prior" in curve.source


def test_speed_bench_averages_are_inside_the_intervals_and_near_the_middle() -> None:
    """SPEED-Bench Table 1 (draft length 3): the models' average lengths, and the mean over them within 10%."""
    printed = {"ngram": [1.41, 1.31], "draft_model": [2.44, 2.43], "eagle3": [2.44, 2.25, 2.22, 2.36], "mtp": [2.55, 2.81]}
    for kind, lengths in printed.items():
        interval = prior(kind).range(3)
        assert all(float(interval.low) <= length <= float(interval.high) for length in lengths), kind
        assert float(interval.mid) == pytest.approx(np.mean(lengths), rel=0.10), kind


def test_order_of_generations_and_of_workloads() -> None:
    at_3 = {kind: float(prior(kind).acceptance_length(3)) for kind in DRAFTERS}
    assert at_3["ngram"] < at_3["eagle"] < at_3["eagle2"] < at_3["eagle3"] < at_3["mtp"]
    for kind in ("mtp", "eagle3"):
        by_workload = {name: float(prior(kind, name).acceptance_length(3)) for name in WORKLOADS}
        assert by_workload["roleplay"] < by_workload["writing"] < by_workload["coding"]
        assert by_workload["coding"] > by_workload["mixed"]


def test_temperature_costs_external_drafters_most() -> None:
    """Pairs of published rows: a third of AL - 1 for draft models, 7% for MTP and EAGLE-3."""

    def kept(kind: str) -> float:
        cold, hot = (float(prior(kind, temperature=t).acceptance_length(3)) - 1 for t in (0.0, 1.0))
        return hot / cold

    assert kept("mtp") == pytest.approx(0.93, abs=0.01)
    assert kept("eagle3") == pytest.approx(0.93, abs=0.01)
    assert kept("dflash") == pytest.approx(0.85, abs=0.01)
    assert kept("draft_model") < 0.75
    half = float(prior("mtp", temperature=0.5).acceptance_length(3))
    assert float(prior("mtp", temperature=1.0).acceptance_length(3)) < half < float(prior("mtp").acceptance_length(3))


@given(st.sampled_from(DRAFTERS), st.floats(0.01, 0.99))
def test_a_mix_lies_between_its_parts_and_is_token_weighted(kind: str, share: float) -> None:
    k = np.arange(1, 9)
    first, second = (prior(kind, name).acceptance_length(k) for name in ("coding", "chat"))
    mixed = prior(kind, {"coding": share, "chat": 1 - share}).acceptance_length(k)
    np.testing.assert_allclose(mixed, 1 / (share / first + (1 - share) / second), rtol=1e-9)


def test_shares_as_text_sum_to_one_or_a_hundred() -> None:
    assert parse_mix("coding:0.5, chat:0.5") == parse_mix("coding:50,chat:50") == parse_mix("coding,chat")
    assert parse_mix({"coding": 2, "chat": 2}) == {"coding": 0.5, "chat": 0.5}
    assert sum(parse_mix("coding:0.33,chat:0.33,math:0.33").values()) == pytest.approx(1.0)
    for bad in ("coding:0.7,chat:0.7", "coding:0.7,chat", "coding:2,chat:2"):
        with pytest.raises(InputError, match="sum to 1"):
            parse_mix(bad)
    assert parse_mix("code") == {"coding": 1.0}
    for bad in ("coding:-1", "coding:x", "", "cooking", "coding:0"):
        with pytest.raises(InputError):
            parse_mix(bad)


def test_excluded_sources_change_the_prior_and_are_gone_from_its_rows() -> None:
    whole, without = prior("eagle3", "coding"), prior("eagle3", "coding", exclude_sources=("SpecForge",))
    assert "161 rows" in whole.source
    assert "161 rows" not in without.source
    assert not np.allclose(whole.s, without.s)
    assert without.sigma >= 0.9 * whole.sigma
    np.testing.assert_allclose(prior("eagle3", "coding", exclude_sources=("no such source",)).s, whole.s, atol=0.02)


def test_measurements_of_a_source_find_its_rows() -> None:
    assert same_source("https://github.com/sgl-project/SpecForge/blob/main/docs/spec_bundle/public/raw_data/data.json") == (
        "specforge-data",
    )
    assert same_source("https://specdecode-bench.github.io") == ("arxiv-2601.11580",)
    blog = same_source("https://github.com/vllm-project/vllm-project.github.io/blob/main/_posts/2026-03-13-p-eagle.md")
    assert len(blog) > 5
    assert same_source("https://github.com/somebody/else") == ()


def test_context_beyond_training_follows_the_published_decay() -> None:
    """speculators pull request 684: EAGLE-3 on Qwen3-8B; SPEED-Bench Table 10: on Llama-3.3-70B, trained to 2k."""
    lengths = 1 + 1.295 * context_factor("eagle3", [8192, 12288, 20480], 4096)
    np.testing.assert_allclose(lengths, [1.69, 1.29, 1.08], atol=0.07)
    assert float(1 + 1.59 * context_factor("eagle3", 8192, 2048)) == pytest.approx(1.19, abs=0.02)
    long = prior("eagle3", context=16384, trained_context=4096)
    assert float(long.acceptance_length(3)) < float(prior("eagle3").acceptance_length(3)) - 0.5
    assert "is beyond the trained 4096" in long.notes[0]


def test_dflash_fades_where_eagle_3_collapses() -> None:
    """DFlash paper, Table 4, trained to 4k: AL - 1 over its value at 4k, on three sets at 8k and 16k and one at 32k."""
    printed = {
        8192: (3.46 / 3.91, 3.17 / 4.17, 2.32 / 2.93),
        16384: (2.61 / 3.91, 2.57 / 4.17, 1.67 / 2.93),
        32768: (1.09 / 2.93,),
    }
    for context, ratios in printed.items():
        assert float(context_factor("dflash", context, 4096)) == pytest.approx(np.mean(ratios), abs=0.03)
    assert float(context_factor("eagle3", 32768, 4096)) < 0.01
    assert float(prior("dflash", context=16384, trained_context=4096).acceptance_length(7)) > 2.0


@given(st.sampled_from(DRAFTERS), st.lists(st.floats(0, 2e5), min_size=2, max_size=6), st.sampled_from([None, 0, 2048, 40960]))
def test_the_context_factor_is_one_inside_the_training_and_never_rises(
    kind: str, contexts: list[float], trained: float | None
) -> None:
    contexts = sorted(contexts)
    factor = context_factor(kind, contexts, trained)
    assert factor.shape == (len(contexts),)
    assert np.all((factor > 0) | (np.array(contexts) > 1e4))
    assert np.all(np.diff(factor) <= 0)
    known = trained or (2048 if context_law(kind).depends else np.inf)
    np.testing.assert_array_equal(factor[np.array(contexts) <= known], 1.0)


def test_a_drafter_of_unknown_training_falls_as_a_power_and_is_less_sure() -> None:
    """Qwen3-Coder-30B-A3B's EAGLE-3 head (published sweeps): AL by context; the collapse of a short training is far below."""
    contexts, printed = np.array([13768, 39653, 91897, 252458]), np.array([2.94, 2.36, 2.03, 1.58])
    factor = context_factor("eagle3", contexts) / context_factor("eagle3", 2486)
    np.testing.assert_allclose(1 + 2.67 * factor, printed, rtol=0.16)
    assert np.all(context_factor("eagle3", contexts, 4096) < 0.2)
    np.testing.assert_allclose(context_sigma("eagle3", contexts), -0.5 * np.log(context_factor("eagle3", contexts)))
    assert float(context_sigma("eagle3", 1e5, 4096)) == 0.0
    assert prior("eagle3", context=32768).sigma > prior("eagle3").sigma == prior("eagle3", context=2048).sigma
    assert context_shift("eagle3", 32768, 4096) == pytest.approx(8**-0.34)


def test_every_kind_has_a_context_law_with_its_source() -> None:
    assert set(CONTEXT_LAWS) == set(DRAFTERS)
    for kind, law in CONTEXT_LAWS.items():
        assert law.source
        assert law.state in ("published", "assumed")
        for trained in (None, 4096):
            assert law.depends == (float(context_factor(kind, 1e6, trained)) < 1.0)
    assert context_note("mtp", 1e6) == ""
    assert "assumed" in context_note("dflash", 32768, 4096) and "not known" in context_note("dflash", 32768)
    with pytest.raises(InputError, match="context"):
        context_factor("eagle3", [-1.0])


def test_another_language_uses_the_multilingual_level() -> None:
    curve = prior("eagle3", "chat", language="de")
    np.testing.assert_allclose(curve.s, prior("eagle3", "multilingual").s)
    assert "language de" in curve.notes[0]
    assert prior("eagle3", "chat", language="en-US").notes == ()
    for bad in ("", "german?", None):
        with pytest.raises(InputError, match="language"):
            prior("eagle3", language=bad)  # type: ignore[arg-type]


def test_priors_of_kinds_without_rows_are_wider() -> None:
    cells = shipped_table().cells
    assert cells["pard", "mixed"].rows == 0
    assert cells["pard", "mixed"].level_sd > cells["eagle3", "mixed"].level_sd


@pytest.mark.parametrize(
    "arguments",
    [{"kind": "eagle9"}, {"kind": "mtp", "workload": "x"}, {"kind": "mtp", "temperature": -1}, {"kind": "mtp", "k_max": 0}],
)
def test_bad_input_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        prior(**({"kind": "mtp"} | arguments))  # type: ignore[arg-type]


def test_a_prior_imports_no_heavy_package() -> None:
    code = (
        "import sys; from specadvisor.acceptance import prior; prior('eagle3'); "
        "print(sorted({'pandas', 'scipy', 'matplotlib'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
