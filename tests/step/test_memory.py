from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from specadvisor.errors import DoesNotFit, InputError
from specadvisor.model import load_model
from specadvisor.model.sharding import VECTORS, replicated
from specadvisor.serving.slots import StateRule
from specadvisor.step import Deployment, admitted, check_fits, deployed_weights, resident
from specadvisor.step.memory import sequence_bytes

from .parts import attention_layer, moe_layer, recurrent_layer

# One attention layer: q 256x256, k and v 256x128, o 256x256, gate and up 256x512, down 512x256, two norms.
ATTENTION_PARAMETERS = 256 * 256 * 2 + 256 * 128 * 2 + 256 * 512 * 3 + 2 * 256


def test_weights_on_one_rank_can_be_counted_on_paper(deploy) -> None:
    weights = deployed_weights(deploy(attention_layer(2)))
    assert weights.layers == 2 * 2 * ATTENTION_PARAMETERS
    assert weights.tables == weights.head == 2 * 256 * 1000
    assert weights.total == deploy(attention_layer(2)).model.weight_bytes


def test_embeddings_that_every_layer_looks_up_are_part_of_the_bill(deploy) -> None:
    model = load_model("gemma-4-e4b")
    bill = resident(replace(deploy(), model=model))
    assert model.lookup_parameters > 2e9 and bill.weight_bytes == model.weight_bytes


@pytest.mark.parametrize("layers", [(attention_layer(2),), (moe_layer(3),), (attention_layer(1), recurrent_layer(2))])
def test_split_weights_are_conserved_and_copies_are_listed(deploy, layers) -> None:
    one, two = (deployed_weights(deploy(*layers, tp=tp)).total for tp in (1, 2))
    model = deploy(*layers).model
    copied = sum(la.count * 2.0 * la.norm_parameters for la in model.layers)
    copied += sum(la.count * m.weight_bytes for la in model.layers for m in la.linears if m.shard == "replicated")
    assert 2 * two == pytest.approx(one + copied)
    assert tuple(sorted(set(replicated(model, 2)) - {VECTORS})) == (
        ("router",) if any(la.feed_forward.__class__.__name__ == "Moe" for la in layers) else ()
    )


def test_kv_heads_beyond_their_count_are_copied(deploy) -> None:
    assert tuple(sorted(set(replicated(deploy().model, 4)) - {VECTORS})) == ("k", "v")
    assert resident(deploy(tp=2)).kv_bytes_per_token == resident(deploy(tp=4)).kv_bytes_per_token == 2 * 128 * 2


def test_experts_are_shared_by_all_ranks(deploy) -> None:
    routed = 8 * 3 * 256 * 64 * 2
    one, two = (deployed_weights(deploy(moe_layer(1), tp=2, ep=ep)).layers for ep in (1, 2))
    assert one == two
    assert deployed_weights(deploy(moe_layer(1), tp=1)).layers - routed == pytest.approx(
        2 * (256 * 256 * 2 + 256 * 128 * 2 + 256 * 8 + 512)
    )


def test_the_pool_is_what_weights_and_drafter_leave(deploy) -> None:
    deployment = deploy()
    drafter = SimpleNamespace(resident_bytes=5e9, kv_bytes_per_token=100.0, state_bytes_per_sequence=0.0)
    memory = resident(deployment, drafter)
    assert memory.kv_pool_bytes == pytest.approx(0.9 * deployment.gpu.memory_bytes - 1e9 - memory.weight_bytes - 5e9)
    assert memory.kv_pool_tokens == pytest.approx(memory.kv_pool_bytes / (2 * 2 * 2 * 64 * 2 + 100))
    assert memory.kv_pool_tokens < resident(deployment).kv_pool_tokens


def test_a_sequence_holds_whole_blocks_lookahead_and_states(deploy) -> None:
    deployment = deploy(attention_layer(1), recurrent_layer(1))
    memory = resident(deployment)
    assert sequence_bytes(deployment, memory, 17) == 32 * 512 + 1_000_000
    assert sequence_bytes(deployment, memory, 17, slots=16, k=3, speculating=True) == 48 * 512 + 4_000_000


def test_states_of_the_drafter_and_further_copies_count(deploy) -> None:
    drafter = SimpleNamespace(resident_bytes=0.0, kv_bytes_per_token=0.0, state_bytes_per_sequence=500_000.0)
    states = StateRule(kept=5, kept_speculating=6)
    deployment = deploy(attention_layer(1), recurrent_layer(1), states=states)
    assert sequence_bytes(deployment, resident(deployment), 16) == 16 * 512 + 5e6
    assert sequence_bytes(deployment, resident(deployment, drafter), 16, k=3, speculating=True) == 16 * 512 + 9 * 1.5e6


@pytest.mark.parametrize(("share", "tokens", "binds"), [(0.0, 16, "both"), (0.5, 16, "states"), (0.5, 160_000, "caches")])
def test_states_may_have_a_share_of_the_pool_of_their_own(deploy, share: float, tokens: int, binds: str) -> None:
    deployment = deploy(attention_layer(1), recurrent_layer(1), states=StateRule(pool_share=share), requests=1e9)
    memory = resident(deployment)
    size = {"both": tokens * 512 + 1e6, "states": 1e6 / 0.5, "caches": tokens * 512 / 0.5}[binds]
    assert admitted(deployment, memory, 1e9, tokens) == memory.kv_pool_bytes // size


def test_a_windowed_layer_holds_its_window_only(deploy) -> None:
    deployment = deploy(attention_layer(1, window=64))
    assert sequence_bytes(deployment, resident(deployment), 100_000) == (64 + 16) * 512


def test_admission_is_bounded_by_pool_and_engine(deploy) -> None:
    deployment = deploy(requests=48.0)
    memory = resident(deployment)
    tokens = memory.kv_pool_bytes / 1024 / 10
    assert admitted(deployment, memory, np.array([1, 8, 64]), tokens - 16).tolist() == [1, 8, 10]
    assert admitted(deployment, memory, 500, 16) == 48
    assert admitted(deployment, memory, 4, 1e12) == 1


def test_a_model_that_does_not_fit_says_what_it_needs(deploy) -> None:
    deployment = deploy(attention_layer(200_000))
    with pytest.raises(DoesNotFit, match=r"needs .* GB a GPU"):
        check_fits(deployment, resident(deployment))


@pytest.mark.parametrize(("field", "value"), [("tp", 3), ("tp", 0), ("ep", 4), ("pp", -1), ("kv_format", "int3")])
def test_impossible_layouts_are_input_errors(deploy, field: str, value: object) -> None:
    with pytest.raises(InputError):
        deploy(**{field: value})


def test_the_cache_format_defaults_to_the_model(deploy) -> None:
    deployment: Deployment = deploy()
    assert deployment.kv_format == "bf16"
    assert resident(deploy(kv_format="fp8")).kv_bytes_per_token == resident(deployment).kv_bytes_per_token / 2
