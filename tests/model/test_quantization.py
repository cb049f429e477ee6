"""Formats by component, through exclude lists; overrides."""

import pytest
from model_files import TINY_LLAMA, config_path, written

from specadvisor.errors import InputError
from specadvisor.model import load_model, weight_table


def formats(model, **kwargs):
    rows = weight_table(load_model(config_path(model), **kwargs))
    out: dict[str, set[str]] = {}
    for row in rows:
        out.setdefault(row.component, set()).add(row.format)
    return out


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Qwen/Qwen3-32B-FP8", {"attention": {"fp8_block"}, "mlp": {"fp8_block"}, "head": {"bf16"}}),
        ("Qwen/Qwen3-235B-A22B-FP8", {"attention": {"fp8_block"}, "routed experts": {"fp8_block"}, "router": {"bf16"}}),
        ("MiniMaxAI/MiniMax-M2.5", {"attention": {"fp8_block"}, "router": {"bf16"}, "mtp": {"fp8_block", "bf16"}}),
        ("nvidia/MiniMax-M2.5-NVFP4", {"attention": {"bf16"}, "routed experts": {"nvfp4"}, "router": {"bf16"}}),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", {"attention": {"bf16"}, "recurrent": {"bf16"}, "routed experts": {"nvfp4"},
                                            "shared experts": {"bf16"}, "mtp": {"bf16"}}),
        ("nvidia/Qwen3.6-27B-NVFP4", {"attention": {"fp8"}, "recurrent": {"fp8", "bf16"}, "mlp": {"w4a16_nvfp4"},
                                      "head": {"w4a16_nvfp4"}, "embedding": {"bf16"}, "mtp": {"bf16"}}),
        ("nvidia/DeepSeek-V3.1-NVFP4", {"attention": {"bf16", "nvfp4"}, "routed experts": {"nvfp4"}, "mtp": {"bf16"}}),
        ("nvidia/DeepSeek-V4-Flash-NVFP4", {"attention": {"fp8_block", "bf16"}, "routed experts": {"nvfp4"},
                                            "shared experts": {"fp8_block"}, "mtp": {"mxfp4", "fp8_block", "bf16"}}),
        ("deepseek-ai/DeepSeek-V4-Flash", {"attention": {"fp8_block", "bf16"}, "routed experts": {"mxfp4"}}),
        ("sgl-project/DeepSeek-V4-Flash-FP8", {"routed experts": {"fp8_block"}}),
        ("moonshotai/Kimi-K2.5", {"attention": {"bf16"}, "mlp": {"bf16"}, "shared experts": {"bf16"},
                                  "routed experts": {"w4a16_g32"}}),
        ("nvidia/MiniMax-M3-NVFP4", {"attention": {"mxfp8"}, "mlp": {"mxfp8"}, "shared experts": {"mxfp8"},
                                     "routed experts": {"nvfp4"}, "head": {"bf16"}}),
        ("nvidia/Gemma-4-26B-A4B-NVFP4", {"attention": {"bf16"}, "mlp": {"bf16"}, "routed experts": {"nvfp4"}}),
        ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4",
         {"attention": {"bf16"}, "recurrent": {"fp8"}, "routed experts": {"w4a16_nvfp4"}, "head": {"w4a16_nvfp4"}}),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", {"attention": {"bf16"}, "recurrent": {"nvfp4", "bf16"}}),
        ("openai/gpt-oss-20b", {"attention": {"bf16"}, "routed experts": {"mxfp4"}, "embedding": {"bf16"}}),
        ("zai-org/GLM-5.2-FP8", {"attention": {"fp8_block", "bf16"}, "router": {"bf16"}, "mtp": {"fp8_block", "bf16"}}),
        ("nvidia/GLM-5.1-NVFP4", {"attention": {"bf16"}, "mlp": {"bf16"}, "shared experts": {"bf16"},
                                  "routed experts": {"nvfp4"}}),
    ],
)  # fmt: skip
def test_components(model, expected):
    found = formats(model)
    assert {component: found[component] for component in expected} == expected


@pytest.mark.parametrize(
    ("model", "kv"),
    [("Qwen/Qwen3-32B-FP8-Static-PerTensor", "fp8"), ("nvidia/Qwen3.6-35B-A3B-NVFP4", "fp8"), ("Qwen/Qwen3-32B-FP8", "bf16"),
     ("nvidia/Llama-3.1-70B-Instruct-FP8", "fp8"), ("nvidia/MiniMax-M3-NVFP4", "bf16")],
)  # fmt: skip
def test_cache_format(model, kv):
    assert load_model(config_path(model)).kv_format == kv


def test_quantisation_file_beside_config_json(tmp_path):
    written(tmp_path, {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}, "hf_quant_config.json")
    written(tmp_path, TINY_LLAMA)
    assert load_model(tmp_path).weight_format == "fp8"
    assert load_model(tmp_path / "config.json").head.format == "bf16"


def test_override_leaves_conventional_matrices_in_16_bit():
    found = formats("Qwen/Qwen3.5-35B-A3B", weights="nvfp4")
    sixteen = {name for name, kinds in found.items() if kinds == {"bf16"}}
    assert sixteen == {"embedding", "router", "head", "mtp", "other"}
    assert found["routed experts"] == found["attention"] == {"nvfp4"}


def test_override_with_gguf_covers_everything():
    model = load_model(config_path("Qwen/Qwen3-32B"), weights="q4_k_m")
    vectors = 2 * next(r.parameters for r in weight_table(model) if r.component == "other")
    assert model.weight_bytes == pytest.approx(model.total_parameters * 4.85 / 8, rel=1e-3)
    assert vectors < 1e-3 * model.weight_bytes and model.head.format == model.embedding_format == "q4_k_m"


def test_override_equal_to_the_checkpoint_keeps_its_mix():
    own, same = formats("openai/gpt-oss-20b"), formats("openai/gpt-oss-20b", weights="mxfp4")
    assert own == same
    assert formats("nvidia/Qwen3.6-27B-NVFP4", weights="nvfp4") == formats("nvidia/Qwen3.6-27B-NVFP4")
    assert formats("nvidia/Qwen3.6-27B-NVFP4", weights="bf16")["mlp"] == {"bf16"}


def test_formats_order_by_size():
    sizes = [load_model(config_path("Qwen/Qwen3-8B"), weights=w).weight_bytes for w in ("bf16", "fp8", "nvfp4", "w4a16")]
    assert sizes == sorted(sizes, reverse=True)


def test_kv_override_and_its_errors():
    path = config_path("Qwen/Qwen3-8B")
    assert load_model(path, kv="fp8").kv_bytes_per_token == load_model(path).kv_bytes_per_token / 2
    with pytest.raises(InputError, match="KV format"):
        load_model(path, kv="fp7")
    with pytest.raises(InputError, match="weight format"):
        load_model(path, weights="q9_k")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "w4a16"),
        ({"quant_method": "gptq", "bits": 8}, "w8a16"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "w4a16_g32"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bnb_nf4"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}}}, "int8"),
    ],
)  # fmt: skip
def test_other_methods(tmp_path, entry, expected):
    model = load_model(written(tmp_path, {**TINY_LLAMA, "quantization_config": entry}))
    assert model.weight_format == expected and model.head.format == "bf16"


def test_unknown_method_is_named_and_can_be_overridden(tmp_path):
    path = written(tmp_path, {**TINY_LLAMA, "quantization_config": {"quant_method": "homemade"}})
    with pytest.raises(InputError, match="homemade"):
        load_model(path)
    assert load_model(path, weights="fp8").weight_format == "fp8"
