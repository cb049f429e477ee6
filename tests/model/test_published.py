"""Numbers that the models' authors publish."""

import pytest
from model_files import config_path, written

from specadvisor.model import load_model


@pytest.mark.parametrize(
    ("model", "kilobytes"),
    [("deepseek-ai/DeepSeek-V3", 70.272), ("meta-llama/Meta-Llama-3.1-405B", 516.096)],
)
def test_kv_per_token_of_the_deepseek_v3_report(model, kilobytes):
    # arXiv 2505.09343, table 1, BF16.
    assert load_model(config_path(model)).kv_bytes_per_token == pytest.approx(1000 * kilobytes)


@pytest.mark.parametrize(
    ("model", "gib", "total_b", "active_b"),
    [("openai/gpt-oss-120b", 60.8, 116.83, 5.13), ("openai/gpt-oss-20b", 12.8, 20.91, 3.61)],
)
def test_gpt_oss_card(model, gib, total_b, active_b):
    # gpt-oss model card, arXiv 2508.10925, table 1: checkpoint size, total and active parameters.
    loaded = load_model(config_path(model))
    assert loaded.weight_bytes / 2**30 == pytest.approx(gib, rel=0.005)
    assert loaded.total_parameters / 1e9 == pytest.approx(total_b, abs=0.01)
    assert loaded.active_parameters / 1e9 == pytest.approx(active_b, abs=0.01)


def test_mtp_sizes():
    # DeepSeek-V3: hub 685 B = 671 B + MTP with its copies of embedding and head; MiMo-V2-Flash: 3 layers of 0.33 B.
    deepseek = load_model(config_path("deepseek-ai/DeepSeek-V3"))
    assert deepseek.mtp.declared
    hub = deepseek.total_parameters + deepseek.mtp.parameters + 2 * deepseek.head.parameters
    assert hub / 1e9 == pytest.approx(685, rel=0.002)
    mimo = load_model(config_path("XiaomiMiMo/MiMo-V2-Flash"))
    assert (mimo.mtp.modules, mimo.mtp.declared) == (3, False)
    assert mimo.mtp.parameters / 3e9 == pytest.approx(0.33, abs=0.005)


@pytest.mark.parametrize(
    ("model", "modules"),
    [
        ("Qwen/Qwen3-32B", 0), ("Qwen/Qwen3.5-27B", 1), ("deepseek-ai/DeepSeek-V4-Flash", 1), ("moonshotai/Kimi-K2.5", 0),
        ("MiniMaxAI/MiniMax-M2.5", 3), ("stepfun-ai/Step-3.7-Flash", 3), ("XiaomiMiMo/MiMo-7B-Base", 1),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 1), ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 0),
    ],
)  # fmt: skip
def test_mtp_modules_under_every_key(model, modules):
    loaded = load_model(config_path(model))
    assert (loaded.mtp.modules if loaded.mtp else 0) == modules


def test_per_layer_embeddings_are_resident_not_active():
    # Gemma E4B: about 4.5 B effective, 8 B with embeddings (Gemma 4 model card; the config here is reconstructed).
    gemma = load_model(config_path("google/gemma-4-E4B"))
    assert gemma.active_parameters / 1e9 == pytest.approx(4.6, abs=0.1)
    assert gemma.lookup_parameters == 262144 * 42 * 256


@pytest.mark.parametrize(
    ("total_b", "active_b", "sizes"),
    [
        (355, 32, (5120, 92, 3, 12288, 1536, 160, True)),
        (106, 12, (4096, 46, 1, 10944, 1408, 128, False)),
    ],
)
def test_glm_4_5_report(tmp_path, total_b, active_b, sizes):
    # GLM-4.5 report, arXiv 2508.06471, table 1 (355B-A32B and 106B-A12B): counted with MTP, without embedding and head.
    hidden, layers, dense, width, expert, experts, qk_norm = sizes
    config = {
        "model_type": "glm4_moe", "hidden_size": hidden, "num_hidden_layers": layers, "first_k_dense_replace": dense,
        "intermediate_size": width, "moe_intermediate_size": expert, "n_routed_experts": experts, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "attention_bias": True,
        "use_qk_norm": qk_norm, "vocab_size": 151552, "num_nextn_predict_layers": 1,
    }  # fmt: skip
    model = load_model(written(tmp_path, config))
    counted = model.total_parameters - model.embedding_parameters - model.head.parameters + model.mtp.parameters
    assert counted / 1e9 == pytest.approx(total_b, rel=0.02)
    assert (model.active_parameters - model.head.parameters) / 1e9 == pytest.approx(active_b, rel=0.03)
