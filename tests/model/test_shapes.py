"""Shapes that can be counted by hand, and the traps of particular families."""

import pytest
from model_files import TINY_LLAMA, config_path, written

from specadvisor.model import Attention, Recurrent, load_model


def mixers(model, kind):
    return [(la.count, la.mixer) for la in model.layers if isinstance(la.mixer, kind)]


def test_llama_on_paper(tmp_path):
    model = load_model(written(tmp_path, TINY_LLAMA))
    # q 8x8, k and v 8x4 each, o 8x8, three 8x16 matrices, two norms of 8.
    layer = 64 + 32 + 32 + 64 + 3 * 128 + 16
    assert model.layers[0].parameters == layer and model.layers[0].count == 2
    assert model.total_parameters == 2 * layer + 8 + 2 * 32 * 8
    assert model.active_parameters == 2 * layer + 8 + 32 * 8
    assert model.weight_bytes == 2 * model.total_parameters
    assert model.kv_bytes_per_token == 2 * 2 * (2 * 2) * 2
    assert model.group_size() == 2 and model.group_size(2) == 2 and model.group_size(4) == 1


def test_gqa_matrices_say_how_they_split(tmp_path):
    linears = {m.name: m for m in load_model(written(tmp_path, TINY_LLAMA)).layers[0].linears}
    assert {m.name for m in linears.values() if m.fused == "qkv"} == {f"self_attn.{n}_proj" for n in "qkv"}
    assert linears["self_attn.k_proj"].units == 2 and linears["self_attn.q_proj"].units == 4
    assert linears["self_attn.k_proj"].on_rank(4) == (2, 8)
    assert linears["self_attn.o_proj"].on_rank(4) == (8, 2)
    assert linears["mlp.down_proj"].shard == "row"
    assert linears["mlp.gate_proj"].fused == linears["mlp.up_proj"].fused == "gate_up"


def test_output_gate_doubles_q():
    full = load_model(config_path("Qwen/Qwen3.5-27B"))
    ((count, mixer),) = mixers(full, Attention)
    q = next(m for m in mixer.linears if m.name.endswith("q_proj"))
    assert count == 16 and q.out_features == 2 * 24 * 256


def test_delta_net_state():
    ((count, mixer),) = mixers(load_model(config_path("Qwen/Qwen3.5-27B")), Recurrent)
    assert (count, mixer.kind) == (48, "gdn")
    assert mixer.state_bytes == 48 * 128 * 128 * 4
    assert mixer.conv_state_bytes == (2 * 16 * 128 + 48 * 128) * 3 * 2


def test_mla_is_one_latent_head():
    model = load_model(config_path("deepseek-ai/DeepSeek-V3"))
    mixer = mixers(model, Attention)[0][1]
    assert (mixer.kind, mixer.key_dim, mixer.value_dim, mixer.kv_elements_per_token) == ("mla", 576, 512, 576)
    assert mixer.group_size(1) == 128 and mixer.group_size(8) == 16 and mixer.kv_copies(8) == 8
    replicated = {m.name.split(".")[-1] for m in mixer.linears if m.shard == "replicated"}
    assert replicated == {"q_a_proj", "kv_a_proj_with_mqa"}
    assert [(la.count, type(la.feed_forward).__name__) for la in model.layers] == [(3, "Mlp"), (58, "Moe")]


def test_glm_5_2_shares_indexers():
    groups = mixers(load_model(config_path("zai-org/GLM-5.2")), Attention)
    assert sum(n for n, m in groups if m.indexer_heads) == 21 and sum(n for n, _ in groups) == 78
    assert all(m.top_k == 2048 for _, m in groups)


def test_deepseek_v4_compression():
    groups = mixers(load_model(config_path("deepseek-ai/DeepSeek-V4-Flash")), Attention)
    by_ratio = {m.compression: (n, m) for n, m in groups}
    assert {ratio: n for ratio, (n, _) in by_ratio.items()} == {1.0: 2, 4.0: 21, 128.0: 20}
    assert by_ratio[1.0][1].window == 128 and by_ratio[4.0][1].local_window == 128
    assert by_ratio[4.0][1].kv_elements_per_token == (512 + 128) / 4


@pytest.mark.parametrize(
    ("model", "full", "window"),
    [("openai/gpt-oss-20b", 12, 128), ("XiaomiMiMo/MiMo-V2-Flash", 9, 128), ("google/gemma-4-26B-A4B", 5, 1024),
     ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 12, 8192), ("poolside/Laguna-S-2.1", 12, 512)],
)  # fmt: skip
def test_windows(model, full, window):
    groups = mixers(load_model(config_path(model)), Attention)
    assert sum(n for n, m in groups if not m.window) == full
    assert {m.window for _, m in groups} == {0, window}


def test_window_bounds_the_cache():
    model = load_model(config_path("openai/gpt-oss-20b"))
    assert model.kv_bytes_per_sequence(128) == 128 * model.kv_bytes_per_token
    grown = model.kv_bytes_per_sequence(1128) - model.kv_bytes_per_sequence(128)
    assert grown == pytest.approx(1000 * model.kv_bytes_per_token / 2)


def test_a_local_window_beside_compressed_entries_is_kept_and_read():
    """DeepSeek-V4: 512-wide keys; every layer keeps the last 128 uncompressed, ratio 4 reads 512 chosen entries, 128 all."""
    by_ratio = {m.compression: m for _, m in mixers(load_model("deepseek-v4-flash"), Attention)}
    assert by_ratio[4.0].keys_read([64, 1024, 65_536]).tolist() == [16 + 64, 256 + 128, 512 + 128]
    assert by_ratio[128.0].keys_read([1024, 65_536]).tolist() == [8 + 128, 512 + 128]
    assert by_ratio[1.0].keys_read(65_536) == 128
    assert by_ratio[128.0].kv_elements(1024) == 8 * 512 + 128 * 512
    assert by_ratio[4.0].kv_elements(1024) == 256 * (512 + 128) + 128 * 512
    assert by_ratio[1.0].kv_elements(1024, slack=16) == 144 * 512


def test_gemma_shared_kv_layers_store_nothing():
    model = load_model(config_path("google/gemma-4-E2B"))
    groups = mixers(model, Attention)
    assert sum(n for n, m in groups if not m.stores_kv) == 20
    assert not any("k_proj" in mat.name for _, m in groups if not m.stores_kv for mat in m.linears)


def test_nemotron_blocks_and_latent_experts():
    model = load_model(config_path("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"))
    kinds = {type(la.mixer).__name__: la.count for la in model.layers if la.mixer}
    assert kinds == {"Recurrent": 40, "Attention": 8}
    moe = next(la.feed_forward for la in model.layers if not la.mixer)
    assert (moe.experts, moe.top_k, moe.hidden, moe.matrices) == (512, 22, 1024, 2)
    assert [type(la.mixer or la.feed_forward).__name__ for la in model.mtp.layers] == ["Attention", "Moe"]


def test_states_are_in_float32_unless_the_config_says_otherwise():
    state = mixers(load_model(config_path("nvidia/Nemotron-H-56B-Base-8K")), Recurrent)[0][1]
    assert state.state_bytes == 256 * 64 * 256 * 4


def test_nas_layers_without_attention():
    model = load_model(config_path("nvidia/Llama-3_3-Nemotron-Super-49B-v1"))
    assert model.layer_count == 80
    assert sum(la.count for la in model.layers if la.mixer is None) == 31


def test_kimi_k3_counts_layers_from_one():
    model = load_model(config_path("moonshotai/Kimi-K3"))
    assert sum(n for n, _ in mixers(model, Attention)) == 24
    assert sum(n for n, m in mixers(model, Recurrent) if m.kind == "kda") == 69
