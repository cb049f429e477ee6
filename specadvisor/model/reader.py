"""From a config to an ``Architecture``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from specadvisor.model import attention, feed_forward, recurrent
from specadvisor.model.architecture import Architecture, FeedForward, Layer, Linear, Mixer, Moe
from specadvisor.model.config import Config
from specadvisor.model.families import Family, family
from specadvisor.model.mtp import mtp_block
from specadvisor.model.nas import nas_layers
from specadvisor.model.pattern import layer_kinds
from specadvisor.model.quantization import Quantization
from specadvisor.model.scope import Scope


def read(config: Config, quantization: Quantization, name: str) -> Architecture:
    """The architecture that ``config`` describes; raises ``InputError`` for an unknown family or a bad value."""
    row = family(config)
    config = Config(config.text, config.top, config.source, row.defaults)
    hidden, vocab = config.integer("hidden_size"), config.integer("vocab_size")
    stated = config.top.get("tie_word_embeddings")
    tied = bool(config.get("tie_word_embeddings", row.tied) if stated is None else stated)
    kinds = [] if row.blocks == "nas" else layer_kinds(config, row)
    depth = len(kinds) or config.integer("num_hidden_layers")

    def build(index: int, mixer: str, forward: str, paths: tuple[str, ...], mtp: bool) -> Layer:
        return one_layer(Scope(config, row, quantization, paths, index, mixer, mtp), forward)

    if row.blocks == "nas":
        layers = grouped(nas_layers(config, row, quantization))
    else:
        layers = grouped([build(i, mixer, forward, (f"layers.{i}",), False) for i, (mixer, forward) in enumerate(kinds)])
    outputs = config.integer("output_vocab_size", vocab)
    head_format = quantization.embedding if tied else quantization.format_of((row.name("head"), "lm_head"), kept=True)
    extra, lookup = model_level(config, row, hidden, depth)
    return Architecture(
        name=name,
        model_type=config.model_type,
        hidden=hidden,
        vocab=vocab,
        layers=layers,
        head=Linear(row.name("head"), hidden, outputs, head_format),
        tied=tied,
        weight_format=main_format(layers),
        kv_format=quantization.kv,
        embedding_format=quantization.embedding,
        max_context=config.count("max_context"),
        mtp=mtp_block(config, row, quantization, depth, kinds, build),
        other_parameters=extra,
        lookup_parameters=lookup,
        warnings=quantization.warnings,
    )


def one_layer(scope: Scope, forward: str) -> Layer:
    """A layer with the mixer of ``scope.kind`` and the feed-forward block ``forward``."""
    family_, hidden = scope.family, scope.hidden
    mixer: Mixer | None = None
    if scope.kind == "linear":
        mixer = recurrent.MIXERS[family_.linear](scope)
    elif scope.kind != "none":
        mixer = attention.MIXERS[family_.mixer](scope)
    blocks: dict[str, Callable[[Scope], FeedForward]] = {"mlp": feed_forward.mlp, "moe": feed_forward.moe}
    ff = blocks[forward](scope) if forward != "none" else None
    norms = family_.norms * hidden if mixer and ff else hidden
    return Layer(1, mixer, ff, norms + layer_extras(scope))


def layer_extras(scope: Scope) -> int:
    """Small per-layer parameters: hyper-connections (V4), attention residuals (Kimi K3), per-layer input norm (Gemma)."""
    config, hidden, count = scope.config, scope.hidden, 0
    if streams := config.count("hc_mult"):
        mix = (2 + streams) * streams
        count += 2 * (mix * streams * hidden + mix + 3)
    if config.count("attn_res_block_size"):
        count += 4 * hidden
    return count + (hidden if config.count("hidden_size_per_layer_input") else 0)


def model_level(config: Config, row: Family, hidden: int, depth: int) -> tuple[int, int]:
    """(parameters outside the layers besides embedding and head, parameters of further lookup tables)."""
    extra, lookup = hidden, 0
    if streams := config.count("hc_mult"):
        extra += streams * streams * hidden + streams + 1
    if config.count("attn_res_block_size"):
        extra += 2 * hidden
    if width := config.count("hidden_size_per_layer_input"):
        extra += hidden * depth * width + width
        lookup = config.integer("vocab_size_per_layer_input", config.integer("vocab_size")) * depth * width
    return extra, lookup


def grouped(layers: list[Layer]) -> tuple[Layer, ...]:
    """Equal layers counted together, in order of first appearance."""
    return tuple(Layer(count, la.mixer, la.feed_forward, la.norm_parameters) for la, count in Counter(layers).items())


def main_format(layers: tuple[Layer, ...]) -> str:
    """The format that holds most parameters."""
    held: Counter[str] = Counter()
    for layer in layers:
        for matrix in layer.linears:
            held[matrix.format] += layer.count * matrix.parameters
        if isinstance(layer.feed_forward, Moe):
            held[layer.feed_forward.format] += layer.count * layer.feed_forward.experts * layer.feed_forward.expert_parameters
    return held.most_common(1)[0][0] if held else "bf16"
