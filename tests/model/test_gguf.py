"""GGUF files, written with the gguf package: the same model as its config.json."""

import contextlib

import numpy as np
import pytest
from model_files import TINY_LLAMA, written

from specadvisor.errors import InputError, MissingDependency
from specadvisor.model import Attention, Recurrent, load_model

gguf = pytest.importorskip("gguf")


def write(path, arch, keys, tensors=(), file_type=0, tokens=32):
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_file_type(file_type)
    for key, value in keys.items():
        name = f"{arch}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        else:
            writer.add_uint32(name, value)
    writer.add_token_list([f"t{i}" for i in range(tokens)])
    for name, shape in tensors:
        writer.add_tensor(name, np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


LLAMA = {
    "block_count": 2, "embedding_length": 8, "feed_forward_length": 16, "context_length": 64, "attention.head_count": 4,
    "attention.head_count_kv": 2, "attention.key_length": 2, "attention.value_length": 2,
}  # fmt: skip
BLOCK = {
    "attn_q": (8, 8), "attn_k": (4, 8), "attn_v": (4, 8), "attn_output": (8, 8), "ffn_gate": (16, 8), "ffn_up": (16, 8),
    "ffn_down": (8, 16), "attn_norm": (8,), "ffn_norm": (8,),
}  # fmt: skip
TENSORS = [
    ("token_embd.weight", (32, 8)), ("output.weight", (32, 8)), ("output_norm.weight", (8,)),
    *((f"blk.{i}.{name}.weight", shape) for i in range(2) for name, shape in BLOCK.items()),
]  # fmt: skip


def test_llama_equals_its_config(tmp_path):
    from_gguf = load_model(write(tmp_path / "tiny.gguf", "llama", LLAMA, TENSORS))
    from_config = load_model(written(tmp_path, TINY_LLAMA))
    assert from_gguf.total_parameters == from_config.total_parameters == sum(int(np.prod(s)) for _, s in TENSORS)
    assert (from_gguf.weight_format, from_gguf.tied, from_gguf.warnings) == ("fp32", False, ())
    assert from_gguf.kv_bytes_per_token == from_config.kv_bytes_per_token
    assert from_gguf.name == "tiny"


def test_no_output_matrix_is_a_tied_head(tmp_path):
    tensors = [t for t in TENSORS if t[0] != "output.weight"]
    assert load_model(write(tmp_path / "tied.gguf", "llama", LLAMA, tensors)).tied


def test_format_follows_the_tensors_not_the_label(tmp_path):
    model = load_model(write(tmp_path / "mislabelled.gguf", "llama", LLAMA, TENSORS, file_type=15))
    assert model.weight_format == "fp32" and "q4_k_m" in model.warnings[0]
    assert load_model(tmp_path / "mislabelled.gguf", weights="q4_k_m").head.format == "q4_k_m"


def test_header_only_uses_the_stated_type(tmp_path):
    model = load_model(write(tmp_path / "header.gguf", "llama", LLAMA, file_type=15))
    assert model.weight_format == model.embedding_format == "q4_k_m"


def test_block_count_includes_mtp(tmp_path):
    keys = {**LLAMA, "block_count": 3, "nextn_predict_layers": 1}
    model = load_model(write(tmp_path / "mtp.gguf", "qwen3", keys, file_type=18))
    assert model.layer_count == 2 and model.mtp.modules == 1


def test_delta_net_hybrid(tmp_path):
    keys = {
        "block_count": 4, "embedding_length": 1024, "feed_forward_length": 3584, "context_length": 4096,
        "attention.head_count": 8, "attention.head_count_kv": 2, "attention.key_length": 256, "attention.value_length": 256,
        "full_attention_interval": 4, "ssm.conv_kernel": 4, "ssm.inner_size": 2048, "ssm.state_size": 128,
        "ssm.time_step_rank": 16, "ssm.group_count": 16,
    }  # fmt: skip
    model = load_model(write(tmp_path / "hybrid.gguf", "qwen35", keys, file_type=15))
    mixers = [(la.count, la.mixer) for la in model.layers]
    assert [(n, type(m)) for n, m in mixers] == [(3, Recurrent), (1, Attention)]
    assert mixers[0][1].state_bytes == 16 * 128 * 128 * 4
    assert mixers[1][1].linears[0].out_features == 2 * 8 * 256


def test_mla(tmp_path):
    keys = {
        "block_count": 2, "embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 4,
        "attention.head_count_kv": 1, "attention.q_lora_rank": 16, "attention.kv_lora_rank": 512, "attention.key_length": 576,
        "attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
        "rope.dimension_count": 64, "expert_count": 4, "expert_used_count": 2, "expert_shared_count": 1,
        "expert_feed_forward_length": 32, "leading_dense_block_count": 1,
    }  # fmt: skip
    model = load_model(write(tmp_path / "mla.gguf", "deepseek2", keys, file_type=15))
    assert model.kv_bytes_per_token == 2 * 576 * 2
    kv_b = next(m for m in model.layers[0].linears if m.name.endswith("kv_b_proj"))
    assert kv_b.out_features == 4 * (128 + 128)


def test_per_layer_windows(tmp_path):
    keys = {**LLAMA, "attention.sliding_window": 4, "expert_count": 2, "expert_used_count": 1, "expert_feed_forward_length": 4}
    model = load_model(write(tmp_path / "windows.gguf", "gpt-oss", keys, file_type=15))
    assert [m.window for _, m in model.attentions()] == [4, 0]


def test_damaged_file(tmp_path):
    whole = write(tmp_path / "whole.gguf", "llama", LLAMA, TENSORS).read_bytes()
    for size in (0, 4, 30, 200, len(whole) // 2):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(InputError):
            load_model(tmp_path / "cut.gguf")


@pytest.mark.parametrize("lost", sorted(LLAMA))
def test_missing_metadata_is_an_input_error_or_has_a_default(tmp_path, lost):
    keys = {key: value for key, value in LLAMA.items() if key != lost}
    path = write(tmp_path / "lost.gguf", "llama", keys, file_type=15)
    if lost in ("block_count", "embedding_length", "feed_forward_length", "attention.head_count"):
        with pytest.raises(InputError, match="missing"):
            load_model(path)
    else:
        assert load_model(path).total_parameters > 0


@pytest.mark.parametrize("arch", ["deepseek2", "qwen35", "gpt-oss", "gemma4", "nemotron_h", "nonsense"])
def test_metadata_of_another_family(tmp_path, arch):
    keys = {**LLAMA, "attention.kv_lora_rank": 4, "ssm.inner_size": 3}
    with contextlib.suppress(InputError):
        assert load_model(write(tmp_path / "odd.gguf", arch, keys, file_type=15)).total_parameters > 0


def test_missing_package_gives_the_command(tmp_path, monkeypatch):
    path = write(tmp_path / "tiny.gguf", "llama", LLAMA)
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(MissingDependency, match="pip install"):
        load_model(path)
