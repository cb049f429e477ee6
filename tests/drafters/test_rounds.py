"""What a round runs, counted by hand: with the ``count_bytes`` kernels a matrix costs its bytes once per pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specadvisor.drafters import FAMILIES, load_drafter
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.model import load_model
from specadvisor.model.architecture import Architecture
from specadvisor.serving import load_engine
from specadvisor.step.deployment import Deployment
from specadvisor.step.memory import resident

from ..fake_engine import FakeEngine
from .conftest import CONFIGS, MakeDeployment

GB = 1e9


def draft_bytes(name: str, model: Architecture, deployment: Deployment, k: float, accepted: float = 1.0) -> float:
    drafter = load_drafter(str(CONFIGS / f"{name}.json"), model)
    time = drafter.round(deployment, 1.0, k, 100.0, accepted).draft
    return float(time.total_s - time["host"])


@pytest.mark.usefixtures("count_bytes")
class TestBytesReadPerRound:
    """Qwen3-8B, batch 1, BF16; the published byte counts of one round."""

    def test_eagle3_reads_fusion_once_and_layer_and_head_k_times(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep = deploy(qwen8b)
        layer, fusion, head = 218103808, 50331648, 4096 * 32000
        for k in (1, 3, 7):
            assert draft_bytes("qwen3-8b-eagle3", qwen8b, dep, k) == 2 * (fusion + k * (layer + head))
        assert draft_bytes("qwen3-8b-eagle3", qwen8b, dep, 3) / GB == pytest.approx(2.2, abs=0.05)

    def test_p_eagle_makes_one_pass(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep = deploy(qwen8b)
        two, seven = (draft_bytes("qwen3-8b-peagle", qwen8b, dep, k) for k in (2, 7))
        assert two == seven
        assert seven / GB == pytest.approx(1.96, abs=0.01)

    def test_dflash_adds_context_projections_and_the_shared_head(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        size = draft_bytes("qwen3-8b-dflash", qwen8b, deploy(qwen8b), 15)
        context = 5 * 2 * 4096 * 1024 * 2
        assert size == 2 * (964689920 + 83886080 + 4096 * 151936) + context
        assert size / GB == pytest.approx(3.3, abs=0.15)

    def test_dspark_reads_its_markov_head_at_every_step(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep = deploy(qwen8b)
        one, seven = (draft_bytes("qwen3-8b-dspark", qwen8b, dep, k) for k in (1, 7))
        assert seven - one == 6 * 2 * 256 * 151936
        assert 3.4 <= seven / GB <= 4.0

    def test_domino_reads_gru_and_residual_head_at_every_step(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep = deploy(qwen8b)
        step = 3 * 1024 * (4096 + 1024) + (4096 + 1024) * 256 + 256 * 151936
        domino, dflash = (draft_bytes(f"qwen3-8b-{kind}", qwen8b, dep, 15) for kind in ("domino", "dflash"))
        assert domino - dflash == 15 * 2 * step
        assert domino / GB == pytest.approx(5.0, rel=0.03)

    def test_mtp_reads_the_whole_head_at_every_step(self, deepseek: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("mtp", deepseek)
        two, three = (drafter.round(deploy(deepseek), 1.0, k, 10.0, 1.0).draft for k in (2.0, 3.0))
        assert float(three["head"] - two["head"]) == deepseek.head.parameters * 2
        projection = 2 * 7168 * 7168
        dense = sum(m.weight_bytes for la in drafter.layers for m in la.linears)
        assert float(three["gemm"] - two["gemm"]) == pytest.approx(dense + 2 * projection)

    def test_medusa_needs_no_context(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("medusa", qwen8b)
        near, far = (drafter.round(deploy(qwen8b), 1.0, 3.0, c, 2.0).draft for c in (10.0, 1e5))
        assert float(near.total_s) == float(far.total_s)
        assert float(near.total_s - near["host"]) == 3 * 2 * (4096 * 4096 + 4096 * 151936)


class TestVerifiedTokens:
    def test_chains_verify_k_plus_one(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        for kind in ("draft_model", "eagle", "eagle3", "p_eagle", "pard", "dflash", "dspark"):
            done = load_drafter(kind, qwen8b).round(deploy(qwen8b), 2.0, np.array([1.0, 5.0]), 10.0, 2.0)
            assert done.verified_tokens.tolist() == [2.0, 6.0], kind

    def test_lookups_verify_drafts_only_after_a_match(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        done = load_drafter("ngram", qwen8b).round(deploy(qwen8b), 2.0, np.array([1.0, 5.0]), 10.0, 1.6)
        assert done.verified_tokens.tolist() == pytest.approx([2.0, 2.0])

    @pytest.mark.parametrize(
        ("kind", "tree", "k", "verified"),
        [("eagle3", "topk4/steps4/tokens8", 4, 8), ("eagle3", "topk10/steps6/tokens60", 6, 60),
         ("eagle3", "topk3/steps3/tokens4", 3, 4), ("dflash", "ddtree/steps15/tokens22", 15, 23), ("eagle2", "", 6, 60)],
    )  # fmt: skip
    def test_trees_verify_their_nodes(
        self, kind: str, tree: str, k: int, verified: int, qwen8b: Architecture, deploy: MakeDeployment
    ) -> None:
        drafter = load_drafter(kind, qwen8b, "sglang", tree=tree)
        assert float(drafter.round(deploy(qwen8b), 1.0, float(k), 10.0, 2.0).verified_tokens) == verified

    def test_lookahead_rows(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        done = load_drafter("lookahead", qwen8b).round(deploy(qwen8b), 1.0, 4.0, 10.0, 2.0)
        assert float(done.verified_tokens) == 1 + (15 + 15) * 4

    def test_suffix_wastes_few_tokens(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        done = load_drafter("suffix", qwen8b).round(deploy(qwen8b), 1.0, np.array([2.0, 24.0]), 10.0, 3.0)
        assert done.verified_tokens.tolist() == [3.0, 5.0]


class TestLaunchesAndHost:
    def test_sequential_drafters_pay_per_pass(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("eagle3", qwen8b)
        done = drafter.round(deploy(qwen8b), 1.0, np.array([1.0, 3.0]), 10.0, 2.0)
        assert done.draft["host"] == pytest.approx(np.array([1.0, 3.0]) * (1.0e-4 + 1.0e-5))

    def test_block_drafters_pay_once(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        done = load_drafter("dflash", qwen8b).round(deploy(qwen8b), 1.0, np.array([1.0, 15.0]), 10.0, 2.0)
        assert done.draft["host"] == pytest.approx(np.array([1.0, 1.0]) * (1.0e-4 + 5 * 1.0e-5))

    def test_overhead_holds_engine_and_cpu_time(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        done = load_drafter("ngram", qwen8b).round(deploy(qwen8b), 10.0, 3.0, 10.0, 2.0)
        assert float(done.overhead.total_s) == pytest.approx(1.0e-3 + 10 * 1.0e-5)


class TestCatchUp:
    def test_padding_engines_run_k_plus_one_rows(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("eagle3", qwen8b)
        k, accepted = np.array([3.0, 7.0]), np.array(2.5)
        assert drafter.catch_up_rows(deploy(qwen8b).serving, k, accepted).tolist() == [4.0, 8.0]
        assert drafter.catch_up_rows(deploy(qwen8b, id="llama_cpp").serving, k, accepted) == 2.5

    def test_assistant_has_no_cache_to_catch_up(self) -> None:
        drafter = load_drafter("mtp", load_model("gemma-4-26b-a4b"))
        assert drafter.kv_bytes_per_token == 0
        assert not any(m.name in ("k", "v") for la in drafter.layers for m in la.linears)


class TestMemory:
    def test_shared_matrices_do_not_count(self, qwen8b: Architecture) -> None:
        eagle = load_drafter(str(CONFIGS / "qwen3-8b-eagle3.json"), qwen8b)
        norms = 2 * (2 * 4096 + 4096)
        assert eagle.resident_bytes == 2 * (218103808 + 50331648 + 4096 * 32000) + norms
        dflash = load_drafter(str(CONFIGS / "qwen3-8b-dflash.json"), qwen8b)
        assert dflash.resident_bytes / GB == pytest.approx(2 * (0.9647 + 0.0839), rel=0.001)

    def test_ranks_share_the_weights(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("eagle3", qwen8b)
        four = drafter.on(deploy(qwen8b, tp=4))
        fusion = sum(m.weight_bytes for m in drafter.inputs)
        norms = 2.0 * sum(la.norm_parameters for la in drafter.layers)
        assert four.resident_bytes == pytest.approx((drafter.resident_bytes - fusion - norms) / 4 + fusion + norms)
        assert four.kv_bytes_per_token == drafter.kv_bytes_per_token / 4
        assert replace(drafter, draft_tp=1).on(deploy(qwen8b, tp=4)).resident_bytes == drafter.resident_bytes
        with pytest.raises(InputError, match="draft-tp"):
            replace(drafter, draft_tp=2).on(deploy(qwen8b, tp=4))

    def test_a_draft_model_shrinks_the_pool(self, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        small = load_drafter("draft_model:qwen3-0.6b", qwen8b)
        assert small.kv_bytes_per_token == 114688
        assert small.resident_bytes == pytest.approx(load_model("qwen3-0.6b").weight_bytes, rel=1e-5)
        dep = deploy(qwen8b)
        assert resident(dep, small.on(dep)).kv_pool_tokens < 0.6 * resident(dep).kv_pool_tokens

    def test_mtp_modules_are_all_resident(self) -> None:
        model = load_model("minimax-m2.5")
        assert model.mtp is not None and model.mtp.modules == 3
        drafter = load_drafter("mtp", model)
        assert drafter.resident_bytes == pytest.approx(model.mtp.weight_bytes, rel=0.001)
        assert drafter.allowed_k()[:5] == (1, 2, 3, 6, 9)
        assert load_drafter("mtp", model, "sglang").allowed_k()[:5] == (1, 2, 3, 4, 5)
        assert load_drafter("mtp", load_model("mimo-v2-flash")).k_multiple == 1

    def test_prefill_of_block_drafters_is_cheap(self, qwen8b: Architecture) -> None:
        h = 4096
        assert load_drafter("dflash", qwen8b).prefill_parameters == 5 * h * h + 2 * 5 * h * 1024


class TestEngines:
    def test_edge_engine_drafts_in_the_targets_format(self) -> None:
        model = load_model("qwen3-8b", weights="nvfp4")
        drafter = load_drafter("mtp", load_model("qwen3.5-27b", weights="nvfp4"), "tensorrt_edge_llm")
        assert drafter.head is not None and drafter.head.out_features == 32000
        eagle = load_drafter("eagle3", model, "tensorrt_edge_llm")
        assert {m.format for la in eagle.layers for m in la.linears} == {"nvfp4"}
        assert str(eagle.tree) == "topk10/steps6/tokens60"

    def test_draft_models_replay_on_hybrids_under_llama_cpp(self, hybrid: Architecture, deploy: MakeDeployment) -> None:
        drafter = load_drafter("draft_model", hybrid, "llama_cpp")
        replay = drafter.round(deploy(hybrid, id="llama_cpp"), 1.0, 2.0, 100.0, 2.0).draft.total_s
        padded = drafter.round(deploy(hybrid, id="ninfer"), 1.0, 2.0, 100.0, 2.0).draft.total_s
        assert float(replay) > 2 * float(padded)
        head = load_drafter("mtp", hybrid, "llama_cpp")
        assert not head.rolls_back_states(deploy(hybrid, id="llama_cpp").serving)

    def test_eagle2_is_a_chain_where_trees_are_missing(self, qwen8b: Architecture) -> None:
        assert load_drafter("eagle2", qwen8b, "vllm").tree is None
        assert load_drafter("eagle2", qwen8b, "sglang").tree is not None

    def test_draft_tp_one_has_no_collectives(self) -> None:
        model = load_model("llama-3.1-70b")
        dep = deployment_on(model, tp=4)
        drafter = load_drafter("draft_model:llama-3.2-1b", model)
        assert "collective" in drafter.round(dep, 1.0, 3.0, 100.0, 2.0).draft.components
        assert float(replace(drafter, draft_tp=1).round(dep, 1.0, 3.0, 100.0, 2.0).draft["collective"]) == 0.0


def deployment_on(model: Architecture, tp: int) -> Deployment:
    return Deployment(model, load_gpu("h100_sxm"), FakeEngine(), tp=tp)  # type: ignore[arg-type]


class TestProperties:
    @pytest.mark.parametrize("kind", [k for k in FAMILIES if k != "mtp"])
    def test_grid_equals_points(self, kind: str, qwen8b: Architecture, deploy: MakeDeployment) -> None:
        dep, drafter = deploy(qwen8b), load_drafter(kind, qwen8b, "sglang")
        k = np.arange(1.0, min(5, drafter.k_max) + 1)[:, None, None]
        batch, context = np.array([1.0, 17.0])[:, None], np.array([100.0, 9000.0])
        grid = drafter.round(dep, batch, k, context, 2.0)
        total = np.broadcast_to(grid.draft.total_s + grid.overhead.total_s, (len(k), 2, 2))
        verified = np.broadcast_to(grid.verified_tokens, (len(k), 2, 2))
        for i in range(len(k)):
            one = drafter.round(dep, 17.0, float(k[i, 0, 0]), 100.0, 2.0)
            assert float(one.draft.total_s + one.overhead.total_s) == pytest.approx(total[i, 1, 0], rel=1e-12)
            assert float(one.verified_tokens) == verified[i, 1, 0]

    @settings(max_examples=15, deadline=None)
    @given(
        k=st.integers(1, 6),
        batch=st.integers(1, 128),
        kind=st.sampled_from(["eagle3", "draft_model", "dflash", "dspark", "p_eagle"]),
    )
    def test_cost_does_not_fall_with_k_batch_or_context(self, k: int, batch: int, kind: str) -> None:
        model = load_model("qwen3-8b")
        dep, drafter = deployment_on(model, 1), load_drafter(kind, model)

        def cost(k: float, batch: float, context: float) -> float:
            return float(drafter.round(dep, batch, k, context, 2.0).draft.total_s)

        base = cost(k, batch, 1000.0)
        assert base > 0
        assert cost(k + 1, batch, 1000.0) >= base
        assert cost(k, batch + 1, 1000.0) >= base
        assert cost(k, batch, 4000.0) >= base


def test_mtp_class_missing_in_the_engine(deploy: MakeDeployment) -> None:
    model = load_model("minimax-m2.5")
    drafter = load_drafter("mtp", model)
    assert drafter.legality(model, deploy(model).serving) == "vllm has no multi-token-prediction class for minimax_m2"
    assert drafter.legality(model, deploy(model, id="sglang").serving) is None


def test_missing_mtp_block_is_an_input_error(qwen8b: Architecture) -> None:
    with pytest.raises(InputError, match="ships none"):
        load_drafter("mtp", qwen8b)


def test_tensorrt_llm_drafted_with_a_second_model_in_passes_of_its_executor(qwen8b: Architecture) -> None:
    """Releases before 1.3: the host prepares each of the k passes and launches the first without a graph."""
    old, new = (
        Deployment(qwen8b, load_gpu("h100_sxm"), load_engine("tensorrt_llm", version)) for version in ("1.2.1", "1.4.0")
    )
    for kind, k in (("draft_model", 1), ("draft_model", 4), ("eagle3", 4)):
        drafter = load_drafter(kind, qwen8b, "tensorrt_llm")
        before, after = (float(drafter.round(d, 8, k, 1024, 2.0).draft.total_s) for d in (old, new))
        if kind == "eagle3":
            assert before == after
        else:
            at_least = k * old.serving.host_s
            assert at_least < before - after < at_least + drafter.layer_count * old.serving.eager_layer_s


@pytest.mark.parametrize(("engine", "rows"), [("vllm", 2.0), ("llama_cpp", 2.0), ("sglang", 6.0), ("tensorrt_llm", 6.0)])
def test_what_a_look_up_verifies_where_it_finds_nothing(
    engine: str, rows: float, qwen8b: Architecture, deploy: MakeDeployment
) -> None:
    """1.6 tokens a round at a precision of 0.6 are one draft on average; padded engines verify all k + 1 rows."""
    done = load_drafter("ngram", qwen8b).round(deploy(qwen8b, id=engine), 32.0, 5.0, 100.0, 1.6)
    assert float(done.verified_tokens) == pytest.approx(rows)


def test_tensorrt_llm_looks_up_without_overlap(qwen8b: Architecture, deploy: MakeDeployment) -> None:
    drafter = load_drafter("ngram", qwen8b)
    there = deploy(qwen8b, id="tensorrt_llm", version="1.4.0")
    assert drafter.scheduled(there).async_scheduling is False
