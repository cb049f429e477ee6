"""Softmax-attention mixers: grouped-query, multi-head latent (MLA), DeepSeek-V4's compressed attention (CSA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specadvisor.model.architecture import Attention, Linear
from specadvisor.model.config import Config
from specadvisor.model.scope import Scope


@dataclass(frozen=True)
class HeadShape:
    """Heads of one layer and their widths; ``shares_value``: v is k, no matrix of its own."""

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    shares_value: bool = False


def head_shape(scope: Scope) -> HeadShape:
    """Heads of one layer. Sliding layers may have their own (``swa_*``), so may full ones (``global_*``)."""
    config, sliding = scope.config, scope.kind in ("sliding", "chunked")

    def own(key: str, default: int) -> int:
        return config.integer(f"swa_{key}", default) if sliding else default

    heads = own("num_attention_heads", listed_heads(scope) or config.integer("num_attention_heads"))
    kv_heads = own("num_key_value_heads", config.integer("num_key_value_heads", heads))
    key_dim = config.count("head_dim") or config.integer("hidden_size") // config.integer("num_attention_heads")
    key_dim = own("head_dim", key_dim)
    value_dim = own("v_head_dim", config.integer("v_head_dim", key_dim))
    if sliding or not config.count("global_head_dim"):
        return HeadShape(heads, kv_heads, key_dim, value_dim)
    wide = config.integer("global_head_dim")
    return HeadShape(heads, config.integer("num_global_key_value_heads", kv_heads), wide, wide, config.flag("attention_k_eq_v"))


def listed_heads(scope: Scope) -> int:
    """Query heads where the config lists them by layer, else 0."""
    key = "num_attention_heads_per_layer"
    listed = None if scope.mtp else scope.config.per_layer(key, scope.index + 1)
    return scope.config.checked(key, listed[-1], 1, 10**5) if listed else 0


def gqa(scope: Scope) -> Attention:
    """Grouped-query attention: q, k, v as one GEMM (k and v split by KV head), o after it."""
    config, part, hidden = scope.config, scope.family.name("attention"), scope.hidden
    shape = head_shape(scope)
    heads, kv_heads = shape.heads, shape.kv_heads
    gate = 2 if config.flag("attn_output_gate") else 1
    reads_other = shares_kv(scope)
    linears = [scope.linear(part, "q_proj", hidden, heads * shape.key_dim * gate, units=heads, fused="qkv")]
    if not reads_other:
        linears.append(scope.linear(part, "k_proj", hidden, kv_heads * shape.key_dim, units=kv_heads, fused="qkv"))
        if not shape.shares_value:
            linears.append(scope.linear(part, "v_proj", hidden, kv_heads * shape.value_dim, units=kv_heads, fused="qkv"))
    linears.append(scope.linear(part, "o_proj", heads * shape.value_dim, hidden, shard="row", units=heads))
    if scope.family.head_gate:
        linears.append(scope.linear(part, "g_proj", hidden, heads, units=heads, kept=True))
    sparse, other = block_sparse(scope)
    return Attention(
        "gqa", heads, kv_heads, shape.key_dim, shape.value_dim,
        window=window(scope), stores_kv=not reads_other, **sparse,
        linears=(*linears, *indexer_of_blocks(scope, sparse)),
        other_parameters=other + vectors(scope, shape, sum(m.out_features for m in linears if m.fused)),
    )  # fmt: skip


def window(scope: Scope) -> int:
    """Keys that the layer sees, 0 = all."""
    if scope.kind == "sliding":
        return scope.config.integer("sliding_window")
    return scope.config.integer("attention_chunk_size") if scope.kind == "chunked" else 0


def shares_kv(scope: Scope) -> bool:
    """Whether the layer reads an earlier layer's cache (Gemma: the last ``num_kv_shared_layers``)."""
    shared = scope.config.count("num_kv_shared_layers")
    return bool(shared) and scope.index >= scope.config.integer("num_hidden_layers") - shared


def vectors(scope: Scope, shape: HeadShape, qkv_outputs: int) -> int:
    """Biases, q/k norms and sinks."""
    config, family = scope.config, scope.family
    count = 0
    if config.flag("attention_bias"):
        count += qkv_outputs + (scope.hidden if family.bias == "config" else 0)
    if family.qk_norm and config.flag("use_qk_norm", True):
        count += (shape.heads + shape.kv_heads if family.qk_norm == "full" else 2) * shape.key_dim
    sliding_sink = scope.kind == "sliding" and config.flag("add_swa_attention_sink_bias")
    return count + (shape.heads if family.sinks or sliding_sink else 0)


def block_sparse(scope: Scope) -> tuple[dict[str, Any], int]:
    """MiniMax-M3: an indexer chooses blocks of keys. (Attention fields, norm parameters)."""
    sparse = Config(scope.config.table("sparse_attention_config"), {}, scope.config.source)
    if not sparse.text:
        return {}, 0
    switches = None if scope.mtp else sparse.per_layer("sparse_attention_freq", scope.index + 1)
    if switches and not switches[-1]:
        return {}, 0
    dim, heads = sparse.integer("sparse_index_dim"), sparse.integer("sparse_num_index_heads")
    chosen = sparse.integer("sparse_topk_blocks") * sparse.integer("sparse_block_size")
    return {"top_k": chosen, "indexer_heads": heads, "indexer_dim": dim}, 2 * dim


def indexer_of_blocks(scope: Scope, sparse: dict[str, Any]) -> tuple[Linear, ...]:
    """The query and key matrices of a block indexer."""
    if not sparse:
        return ()
    part, heads, dim = scope.family.name("attention"), sparse["indexer_heads"], sparse["indexer_dim"]
    return (
        scope.linear(part, "index_q_proj", scope.hidden, heads * dim, shard="replicated"),
        scope.linear(part, "index_k_proj", scope.hidden, dim, shard="replicated"),
    )


def mla(scope: Scope) -> Attention:
    """Multi-head latent attention, absorbed form: one cached latent + rope key for all heads."""
    config, part, hidden = scope.config, scope.family.name("attention"), scope.hidden
    heads, latent = config.integer("num_attention_heads"), config.integer("kv_lora_rank")
    rope = config.count("qk_rope_head_dim")
    nope, value, q_rank = config.integer("qk_nope_head_dim"), config.integer("v_head_dim"), config.count("q_lora_rank")
    if q_rank:
        linears = [
            scope.linear(part, "q_a_proj", hidden, q_rank, shard="replicated", fused="qkv_a"),
            scope.linear(part, "q_b_proj", q_rank, heads * (nope + rope), units=heads),
        ]
    else:
        linears = [scope.linear(part, "q_proj", hidden, heads * (nope + rope), units=heads)]
    linears += [
        scope.linear(part, "kv_a_proj_with_mqa", hidden, latent + rope, shard="replicated", fused="qkv_a" if q_rank else ""),
        scope.linear(part, "kv_b_proj", latent, heads * (nope + value), units=heads),
        scope.linear(part, "o_proj", heads * value, hidden, shard="row", units=heads),
    ]
    if config.flag("mla_use_output_gate"):
        linears.append(scope.linear(part, "g_proj", hidden, heads * value, units=heads))
    other = q_rank + latent
    sparse: dict[str, Any] = {}
    if chosen := config.count("index_topk"):
        sparse["top_k"] = chosen
        if has_indexer(scope):
            sparse |= {"indexer_heads": config.integer("index_n_heads"), "indexer_dim": config.integer("index_head_dim")}
            linears += indexer(scope, part, q_rank, **sparse)
            other += 2 * sparse["indexer_dim"]
    return Attention("mla", heads, 1, latent + rope, latent, **sparse, linears=tuple(linears), other_parameters=other)


def has_indexer(scope: Scope) -> bool:
    """GLM-5.2: only some layers run an indexer, the others reuse its choice."""
    types = None if scope.mtp else scope.config.per_layer("indexer_types", scope.index + 1)
    return types is None or types[-1] == "full"


def indexer(scope: Scope, part: str, q_rank: int, *, top_k: int, indexer_heads: int, indexer_dim: int) -> list[Linear]:
    """The matrices of a token indexer (DeepSeek sparse attention)."""
    part = f"{part}.indexer"
    return [
        scope.linear(part, "wq_b", q_rank, indexer_heads * indexer_dim, shard="replicated"),
        scope.linear(part, "wk", scope.hidden, indexer_dim, shard="replicated"),
        scope.linear(part, "weights_proj", scope.hidden, indexer_heads, shard="replicated", kept=True),
    ]


def csa(scope: Scope) -> Attention:
    """DeepSeek-V4: one KV head per token, compressed by the layer's ratio; grouped low-rank output.

    Ratio 0 is a plain sliding window; 4 keeps overlapping compressed entries chosen by an indexer; higher ratios
    attend to every compressed entry. All read the last ``sliding_window`` keys uncompressed.
    """
    config, part, hidden = scope.config, scope.family.name("attention"), scope.hidden
    heads, dim, q_rank = config.integer("num_attention_heads"), config.integer("head_dim"), config.integer("q_lora_rank")
    groups, o_rank, near = config.integer("o_groups"), config.integer("o_lora_rank"), config.integer("sliding_window")
    ratios = config.get("compress_ratios")
    listed = isinstance(ratios, list) and scope.index < len(ratios)
    ratio = config.checked("compress_ratios", ratios[scope.index], 0, 10**6) if listed else 0
    linears = [
        scope.linear(part, "wq_a", hidden, q_rank, shard="replicated", fused="qkv_a"),
        scope.linear(part, "wq_b", q_rank, heads * dim, units=heads),
        scope.linear(part, "wkv", hidden, dim, shard="replicated", fused="qkv_a"),
        scope.linear(part, "wo_a", heads * dim // groups, groups * o_rank, units=groups),
        scope.linear(part, "wo_b", groups * o_rank, hidden, shard="row", units=groups),
    ]
    other = q_rank + dim + heads
    fields: dict[str, Any] = {"window": near}
    if ratio:
        overlap = 2 if ratio == 4 else 1
        linears += compressor(scope, f"{part}.compressor", overlap * dim)
        other += ratio * overlap * dim + dim
        fields = {"compression": float(ratio), "local_window": near}
    if ratio == 4:
        n, d = config.integer("index_n_heads"), config.integer("index_head_dim")
        linears += [
            scope.linear(f"{part}.indexer", "wq_b", q_rank, n * d, shard="replicated"),
            scope.linear(f"{part}.indexer", "weights_proj", hidden, n, shard="replicated", kept=True),
            *compressor(scope, f"{part}.indexer.compressor", 2 * d),
        ]
        other += ratio * 2 * d + d
        fields |= {"top_k": config.integer("index_topk"), "indexer_heads": n, "indexer_dim": d}
    return Attention("mla", heads, 1, dim, dim, linears=tuple(linears), other_parameters=other, **fields)


def compressor(scope: Scope, part: str, width: int) -> list[Linear]:
    """Values and weights of a compressed cache entry."""
    return [scope.linear(part, name, scope.hidden, width, shard="replicated", kept=True) for name in ("wkv", "wgate")]


MIXERS = {"gqa": gqa, "mla": mla, "csa": csa}
