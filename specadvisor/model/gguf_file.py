"""A GGUF file's metadata as a config, and its weight format. Needs the ``gguf`` package (an extra)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specadvisor.errors import InputError, MissingDependency
from specadvisor.formats import WEIGHT_FORMATS
from specadvisor.model.architecture import Architecture
from specadvisor.model.config import Config
from specadvisor.model.quantization import Quantization, uniform
from specadvisor.model.reader import read

KEYS = {
    "embedding_length": "hidden_size", "context_length": "max_position_embeddings", "vocab_size": "vocab_size",
    "attention.q_lora_rank": "q_lora_rank", "attention.kv_lora_rank": "kv_lora_rank",
    "attention.sliding_window": "sliding_window", "attention.shared_kv_layers": "num_kv_shared_layers",
    "attention.indexer.head_count": "index_n_heads",
    "attention.indexer.key_length": "index_head_dim", "attention.indexer.top_k": "index_topk", "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok", "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size", "leading_dense_block_count": "first_k_dense_replace",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size", "moe_latent_size": "moe_latent_size",
    "interleave_moe_layer_step": "interleave_moe_layer_step", "nextn_predict_layers": "num_nextn_predict_layers",
    "full_attention_interval": "full_attention_interval", "embedding_length_per_layer_input": "hidden_size_per_layer_input",
}  # fmt: skip
"""Metadata key below the architecture's prefix -> config.json key, where the value means the same."""

FILE_TYPES = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 10: "q2_k", 11: "q3_k_s", 12: "q3_k_m", 14: "q4_k_s",
    15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 29: "iq2_m",
    30: "iq4_xs", 32: "bf16",
}  # fmt: skip
"""``general.file_type`` (llama.cpp's ``llama_ftype``) -> weight format."""

SAME_COUNT = 0.02
"""Relative difference in parameters up to which metadata and tensors agree."""

SAME_SIZE = 0.04
"""Relative difference in bits per weight up to which the stated file type is taken at its word."""


def read_gguf(path: Path, name: str, weights: str | None = None) -> Architecture:
    """The model in ``path``; ``weights`` overrides the file's own format."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingDependency("gguf", "reading .gguf files", "pip install 'specadvisor[gguf]'") from None
    try:
        reader = GGUFReader(str(path))
    except (OSError, ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise InputError("model", str(path), "a complete GGUF file", str(error)) from None
    fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("tokenizer.")}
    fields["tokens"] = len(tokens.data) if (tokens := reader.fields.get("tokenizer.ggml.tokens")) else 0
    tensors = [(str(t.name), int(t.n_elements), int(t.n_bytes)) for t in reader.tensors]
    config = Config.of(as_config(fields, {tensor for tensor, _, _ in tensors}, str(path)), str(path))
    format_, note = file_format(fields, tensors)
    model = read(config, uniform(weights or format_, Quantization()), name)
    if note and not weights:
        model = model.with_warning(note)
    held, described = sum(n for _, n, _ in tensors), model.total_parameters + (model.mtp.parameters if model.mtp else 0)
    if int(fields.get("split.count") or 0) <= 1 and abs(described - held) > SAME_COUNT * held:
        return model.with_warning(f"the tensors hold {held:,} parameters, the metadata describes {described:,}")
    return model


def as_config(fields: Mapping[str, Any], tensors: set[str], source: str) -> dict[str, Any]:
    """Metadata -> the config.json keys that the reader knows."""
    arch = str(fields.get("general.architecture") or "")

    def get(key: str, default: Any = None) -> Any:
        return fields.get(f"{arch}.{key}", default)

    config: dict[str, Any] = {"model_type": arch, "tie_word_embeddings": "output.weight" not in tensors}
    config |= {theirs: get(key) for key, theirs in KEYS.items() if get(key) is not None}
    config.setdefault("vocab_size", fields.get("tokens") or None)
    blocks = get("block_count")
    config["num_hidden_layers"] = blocks - get("nextn_predict_layers", 0) if isinstance(blocks, int) else blocks
    layers = config["num_hidden_layers"] if isinstance(config["num_hidden_layers"], int) else 0
    if forward := get("feed_forward_length"):
        config["intermediate_size"] = max(forward) if isinstance(forward, list) else forward
    config |= heads(get, layers, source)
    if arch.startswith("nemotron_h"):
        config["layers_block_type"] = single_blocks(get, layers, bool(get("expert_count")))
    if get("kv_lora_rank") or config.get("kv_lora_rank"):
        config |= latent(get)
    if get("ssm.inner_size"):
        config |= recurrent(get)
    return config


def heads(get: Any, layers: int, source: str) -> dict[str, Any]:
    """Head counts and widths; arrays have one entry a layer, with 0 KV heads in recurrent layers."""
    count, kv = get("attention.head_count"), get("attention.head_count_kv")
    wide, near = get("attention.key_length"), get("attention.key_length_swa")
    out: dict[str, Any] = {"num_attention_heads": max(count) if isinstance(count, list) else count}
    pattern = get("attention.sliding_window_pattern")
    if isinstance(pattern, list) and layers:
        windowed = [bool(value) for value in pattern[:layers]]
        out["layer_types"] = ["sliding_attention" if w else "full_attention" for w in windowed]
    elif isinstance(pattern, int):
        out["sliding_window_pattern"] = pattern
    if isinstance(kv, list):
        kv = kv[:layers]
        if 0 in kv:
            out["layer_types"] = ["full_attention" if n else "linear_attention" for n in kv]
            out["num_key_value_heads"] = max(kv)
        elif "layer_types" in out:
            by_kind = dict(zip(out["layer_types"], kv, strict=False))
            out["num_key_value_heads"] = by_kind.get("sliding_attention", max(kv))
            out["num_global_key_value_heads"] = by_kind.get("full_attention", max(kv))
        elif len(set(kv)) == 1:
            out["num_key_value_heads"] = kv[0]
        else:
            raise InputError(f"{source}: attention.head_count_kv", kv, "one number, or a list with a known layer pattern")
    else:
        out["num_key_value_heads"] = kv
    out["head_dim"] = near or wide
    if near and near != wide:
        out["global_head_dim"] = wide
    if value := get("attention.value_length_swa" if near else "attention.value_length"):
        out["v_head_dim"] = value
    return {key: value for key, value in out.items() if value is not None}


def single_blocks(get: Any, layers: int, experts: bool) -> list[str]:
    """Nemotron-H: KV heads mark attention layers, a feed-forward width marks feed-forward ones, the rest is Mamba."""
    kv, forward = get("attention.head_count_kv"), get("feed_forward_length")
    if not isinstance(kv, list) or not isinstance(forward, list):
        raise InputError("attention.head_count_kv", kv, "a list with one entry a layer")
    block = "moe" if experts else "mlp"
    return ["attention" if n else block if width else "mamba" for n, width in zip(kv[:layers], forward[:layers], strict=True)]


def latent(get: Any) -> dict[str, Any]:
    """MLA: the file's key length is the absorbed width (latent + rope); per-head widths have keys of their own."""
    rope = get("rope.dimension_count") or 64
    key, value = get("attention.key_length_mla"), get("attention.value_length_mla")
    key, value = key or get("attention.key_length"), value or get("attention.value_length")
    if not isinstance(key, int) or key <= rope:
        raise InputError("attention.key_length_mla", key, f"a width above the {rope} of rope.dimension_count")
    return {"qk_rope_head_dim": rope, "qk_nope_head_dim": key - rope, "v_head_dim": value}


def recurrent(get: Any) -> dict[str, Any]:
    """``ssm.*``: the delta-net names and the Mamba names of the same sizes; the family takes those it needs."""
    inner, state, rank = get("ssm.inner_size"), get("ssm.state_size"), get("ssm.time_step_rank") or 1
    groups, kernel = get("ssm.group_count") or 1, get("ssm.conv_kernel")
    return {
        "linear_num_value_heads": rank, "linear_value_head_dim": inner // rank, "linear_num_key_heads": groups,
        "linear_key_head_dim": state, "linear_conv_kernel_dim": kernel, "mamba_num_heads": rank, "n_groups": groups,
        "mamba_head_dim": inner // rank, "ssm_state_size": state, "conv_kernel": kernel,
    }  # fmt: skip


def file_format(fields: Mapping[str, Any], tensors: list[tuple[str, int, int]]) -> tuple[str, str]:
    """(weight format, note). The file's type, or the nearest one in bits per weight where its tensors say otherwise."""
    stated = FILE_TYPES.get(int(fields.get("general.file_type", -1)), "")
    elements, size = sum(n for _, n, _ in tensors), sum(b for _, _, b in tensors)
    if not elements or int(fields.get("split.count") or 0) > 1:
        return stated or "q4_k_m", "" if stated else "the file does not state its type: q4_k_m assumed"
    held = size / elements
    if stated and abs(WEIGHT_FORMATS[stated].bytes_per_weight / held - 1) <= SAME_SIZE:
        return stated, ""
    known = [f for f in WEIGHT_FORMATS.values() if f.kernel == "gguf" or f.id in ("bf16", "fp32", "fp16")]
    best = min(known, key=lambda f: abs(f.bytes_per_weight - held))
    return best.id, f"{8 * held:.2f} bits a weight on average: read as {best.id} (the file states {stated or 'no known type'})"
