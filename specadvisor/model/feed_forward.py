"""Feed-forward blocks: dense, and routed experts with what runs beside them."""

from __future__ import annotations

from specadvisor.model.architecture import Linear, Mlp, Moe
from specadvisor.model.scope import Scope


def gated_block(scope: Scope, part: str, width: int, *, gated: bool = True) -> tuple[Linear, ...]:
    """gate and up as one GEMM, then down; without a gate only up and down."""
    names = ("gate_proj", "up_proj") if gated else ("up_proj",)
    return (
        *(scope.linear(part, name, scope.hidden, width, fused="gate_up" if gated else "") for name in names),
        scope.linear(part, "down_proj", width, scope.hidden, shard="row"),
    )


def mlp(scope: Scope) -> Mlp:
    """The dense block (Gemma: twice as wide in layers that read another layer's cache)."""
    width = scope.config.integer("dense_width")
    if scope.config.flag("use_double_wide_mlp") and scope.config.count("num_kv_shared_layers"):
        width *= 1 + (scope.index >= scope.config.integer("num_hidden_layers") - scope.config.count("num_kv_shared_layers"))
    linears = gated_block(scope, scope.family.name("mlp"), width, gated=scope.family.gated)
    return Mlp(width, (*linears, *per_layer_input(scope)))


def per_layer_input(scope: Scope) -> tuple[Linear, ...]:
    """Gemma's per-layer embeddings: a gate down to their width and a projection back."""
    width = scope.config.count("hidden_size_per_layer_input")
    if not width:
        return ()
    return (
        scope.linear("", "per_layer_input_gate", scope.hidden, width, shard="replicated"),
        scope.linear("", "per_layer_projection", width, scope.hidden, shard="replicated"),
    )


def moe(scope: Scope) -> Moe:
    """Routed experts, with router, shared experts, latent projections and a parallel dense block."""
    config, family, hidden = scope.config, scope.family, scope.hidden
    part, experts = family.name("moe"), config.integer("experts")
    width, inner = config.count("expert_width") or config.integer("intermediate_size"), config.count("expert_hidden") or hidden
    linears = [scope.linear(part, family.name("router"), hidden, experts, shard="replicated", kept=True)]
    other = 0
    if inner != hidden:
        linears += [
            scope.linear(part, "latent_down_proj", hidden, inner, shard="replicated"),
            scope.linear(part, "latent_up_proj", inner, hidden, shard="replicated"),
        ]
        other += inner if config.flag("latent_moe_use_norm") else 0
    if shared := shared_width(scope, width):
        linears += gated_block(scope, f"{part}.{family.name('shared')}", shared, gated=family.gated)
        if family.shared_gate:
            linears.append(scope.linear(part, "shared_expert_gate", hidden, 1, shard="replicated", kept=True))
    if config.flag("enable_moe_block"):
        linears += gated_block(scope, family.name("mlp"), config.integer("intermediate_size"))
        other += 4 * hidden + experts
    other += experts if family.expert_bias else 0
    return Moe(
        experts,
        min(config.integer("top_k"), experts),
        inner,
        width,
        matrices=3 if family.gated else 2,
        format=scope.expert_format(part),
        linears=(*linears, *per_layer_input(scope)),
        other_parameters=other,
        expert_biases=2 * width + hidden if family.expert_bias else 0,
    )


def shared_width(scope: Scope, expert_width: int) -> int:
    """Width of all shared experts together, 0 where there are none."""
    spelling, stated = scope.config.found("shared_width")
    if stated is not None:
        width = scope.config.checked(spelling, stated, 0, 10**8)
        return width * scope.config.count("shared_experts", 1)
    return expert_width * scope.config.count("shared_experts")
