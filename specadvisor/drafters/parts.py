"""Layers and matrices of drafters, built from the same parts as a target's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from specadvisor.model.architecture import Architecture, Attention, Layer, Linear, Mlp


@dataclass(frozen=True, slots=True)
class Mla:
    """Ranks and head widths of a latent-attention draft layer."""

    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a drafter, whatever its family; a field that a family does not use stays at its default.

    ``taps``: target layers whose hidden states are fused. ``windows``: keys seen per layer, 0 = all.
    ``block``: rows of one block pass as trained (0 = not a block drafter). ``rank``/``gru``: sequential low-rank heads.
    ``trained_context``: longest context it was trained for, 0 = not stated; ``rope_scaled``: stretched by YaRN to it.
    """

    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    draft_vocab: int
    target_hidden: int
    taps: int = 0
    windows: tuple[int, ...] = ()
    block: int = 0
    mla: Mla | None = None
    rank: int = 0
    gru: int = 0
    width: int = 0
    modules: int = 0
    tied: bool = True
    mixing: bool = False
    trained_context: int = 0
    rope_scaled: bool = False

    def window(self, layer: int) -> int:
        return self.windows[layer] if layer < len(self.windows) else 0


def decoder_layer(shape: Shape, *, input_width: int = 0, window: int = 0, count: int = 1, format: str = "bf16") -> Layer:
    """One gated decoder layer; ``input_width`` widens the QKV input (EAGLE-3: 2h, embedding beside hidden state).

    Parameters: (input)*(heads + 2*kv)*dim + heads*dim*h + 3*h*I  (SpecForge ``llama3_eagle.py``).
    """
    h, width = shape.hidden, input_width or shape.hidden
    attention = _mla(shape, width, format) if shape.mla else _gqa(shape, width, window, format)
    mlp = Mlp(
        shape.intermediate,
        (
            Linear("gate", h, shape.intermediate, format, fused="gate_up"),
            Linear("up", h, shape.intermediate, format, fused="gate_up"),
            Linear("down", shape.intermediate, h, format, shard="row"),
        ),
    )
    return Layer(count, attention, mlp, norm_parameters=2 * h + (width - h))


def decoder_layers(shape: Shape, *, first_input: int = 0, format: str = "bf16") -> tuple[Layer, ...]:
    """All layers of ``shape``: a first layer with its own input width, then runs of equal windows."""
    layers: list[Layer] = []
    for i in range(shape.layers):
        layer = decoder_layer(shape, input_width=first_input if i == 0 else 0, window=shape.window(i), format=format)
        if layers and replace(layers[-1], count=1) == layer:
            layers[-1] = replace(layers[-1], count=layers[-1].count + 1)
        else:
            layers.append(layer)
    return tuple(layers)


def _gqa(shape: Shape, width: int, window: int, format: str) -> Attention:
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    linears = (
        Linear("q", width, q, format, units=shape.heads, fused="qkv"),
        Linear("k", width, kv, format, units=shape.kv_heads, fused="qkv"),
        Linear("v", width, kv, format, units=shape.kv_heads, fused="qkv"),
        Linear("o", q, shape.hidden, format, shard="row", units=shape.heads),
    )
    return Attention("gqa", shape.heads, shape.kv_heads, shape.head_dim, shape.head_dim, window=window, linears=linears)


def _mla(shape: Shape, width: int, format: str) -> Attention:
    mla = shape.mla
    assert mla is not None
    heads = shape.heads
    linears = (
        Linear("q_a", width, mla.q_rank, format, shard="replicated", fused="qkv_a"),
        Linear("kv_a", width, mla.kv_rank + mla.rope, format, shard="replicated", fused="qkv_a"),
        Linear("q_b", mla.q_rank, heads * (mla.nope + mla.rope), format, units=heads),
        Linear("kv_b", mla.kv_rank, heads * (mla.nope + mla.value), format, units=heads),
        Linear("o", heads * mla.value, shape.hidden, format, shard="row", units=heads),
    )
    return Attention("mla", heads, 1, mla.kv_rank + mla.rope, mla.kv_rank, linears=linears)


def context_projections(layers: tuple[Layer, ...]) -> tuple[Linear, ...]:
    """The K and V projections that block drafters run on context rows, one pair per layer (q, o and MLP are skipped)."""
    pairs: list[Linear] = []
    for i, layer in enumerate(layers):
        for copy in range(layer.count):
            pairs += [replace(m, fused=f"kv{i}.{copy}") for m in layer.linears if m.name in ("k", "v")]
    return tuple(pairs)


def linears_in_format(linears: tuple[Linear, ...], format: str) -> tuple[Linear, ...]:
    """The same matrices stored as ``format``."""
    return tuple(replace(m, format=format) for m in linears)


def layers_in_format(layers: tuple[Layer, ...], format: str) -> tuple[Layer, ...]:
    """The same layers with every matrix, routed experts included, stored as ``format``."""

    def part(value: Any) -> Any:
        if value is None:
            return None
        changes: dict[str, Any] = {"linears": linears_in_format(value.linears, format)}
        if hasattr(value, "format"):
            changes["format"] = format
        return replace(value, **changes)

    return tuple(replace(la, mixer=part(la.mixer), feed_forward=part(la.feed_forward)) for la in layers)


def layers_with_window(layers: tuple[Layer, ...], window: int) -> tuple[Layer, ...]:
    """The same layers with attention limited to ``window`` keys (a narrower window stays)."""

    def narrow(mixer: Any) -> Any:
        if not isinstance(mixer, Attention):
            return mixer
        return replace(mixer, window=min(mixer.window or window, window))

    return tuple(replace(la, mixer=narrow(la.mixer)) for la in layers)


def target_attention(model: Architecture) -> Attention | None:
    """The most common attention of the target: what usual drafter shapes copy."""
    found = [(not la.mixer.window, la.count, la.mixer) for la in model.layers if isinstance(la.mixer, Attention)]
    return max(found, key=lambda item: item[:2])[2] if found else None


def target_intermediate(model: Architecture) -> int:
    """Width of the target's dense feed-forward where every layer has one, else 0."""
    dense = [la.feed_forward.intermediate for la in model.layers if isinstance(la.feed_forward, Mlp)]
    has_experts = any(la.feed_forward is not None and not isinstance(la.feed_forward, Mlp) for la in model.layers)
    return 0 if has_experts or not dense else max(dense)
