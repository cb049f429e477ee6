"""Multi-token prediction heads that ship with a model, and the Gemma-4 assistant that reads its target's cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specadvisor.drafters.facts import drafter_facts, engine_facts
from specadvisor.drafters.parts import Shape, decoder_layers, target_attention
from specadvisor.drafters.round import Load, Round
from specadvisor.drafters.sequential import SequentialDrafter
from specadvisor.drafters.shapes import family_shape
from specadvisor.errors import InputError
from specadvisor.model.architecture import Architecture, Attention, Layer, Linear
from specadvisor.ranges import FloatArray
from specadvisor.step.layers import layers_time, linear_time

if TYPE_CHECKING:
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class Mtp(SequentialDrafter):
    """DeepSeek-V3 form: norms, eh_proj 2h -> h and one full target block per step, the target's whole head.

    ``modules`` > 1: weights for that many steps. Engines that run them (module j at step j) bring every module's cache up
    to date; the others run module 0 at every step. ``assistant``: a small decoder on the target's cache (Gemma 4).
    """

    kind = "mtp"

    modules: int = 1
    assistant: bool = False

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k, context, accepted = load.batch, load.k, load.context, load.accepted
        result = super().draft(deployment, load)
        if self.runs_all_modules(deployment.serving):
            rows = self.catch_up_rows(deployment.serving, k, accepted)
            one = layers_time(deployment, self.layers, batch, rows, context)
            one = one + linear_time(deployment, self.step_linears, batch * rows)
            result = replace(result, draft=result.draft + one.scaled(self.modules - 1.0))
        return result

    def catch_up_rows(self, serving: ServingEngine, k: FloatArray, accepted: FloatArray) -> FloatArray:
        """An assistant writes no cache of its own, so it has nothing to catch up with."""
        return accepted * 0.0 + 1.0 if self.assistant else super().catch_up_rows(serving, k, accepted)

    def legality(self, model: Architecture, serving: ServingEngine) -> str | None:
        """Besides the engine's support of the method: some engines lack the class of a family that ships a block."""
        if model.model_type.startswith(tuple(engine_facts()["mtp_missing"].get(serving.id, ["-"]))):
            return f"{serving.id} has no multi-token-prediction class for {model.model_type}"
        return super().legality(model, serving)

    def runs_all_modules(self, serving: ServingEngine) -> bool:
        """True where the engine runs module j at step j; elsewhere module 0 serves every step."""
        families = engine_facts()["multi_module_mtp"].get(serving.id, [])
        return self.modules > 1 and any(self.model.model_type.startswith(f) for f in families)


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Mtp:
    """The model's own block; an assistant where a config of one is given, or for Gemma 4, which ships it separately."""
    if model.mtp is None:
        if (config and "hidden" in config and config["hidden"] != model.hidden) or model.model_type.startswith("gemma4"):
            return _assistant(model, config, name)
        raise InputError("drafter", "mtp", f"a model with a multi-token-prediction block; {model.name} ships none")
    block = model.mtp
    if block.shares_target_kv:
        layers = _without_cache(block.layers)
        return Mtp(name=name, model=model, layers=layers, step_linears=(block.projection,), head=model.head, assistant=True)
    notes: list[str] = []
    if not block.declared:
        notes.append(f"mtp: {model.name} ships a block that its config does not declare.")
    if block.modules > 1:
        notes.append(f"mtp: {block.modules} modules; engines without a multi-layer worker run the first one at every step.")
    return Mtp(
        name=name,
        model=model,
        layers=block.layers,
        step_linears=(block.projection,),
        head=model.head,
        copies=block.modules,
        modules=block.modules,
        k_multiple=block.modules,
        assumptions=tuple(notes),
    )


def _assistant(model: Architecture, config: Mapping[str, Any] | None, name: str) -> Mtp:
    usual = dict(drafter_facts("mtp").shape)
    attention = target_attention(model)
    heads = {"heads": attention.heads, "kv_heads": attention.kv_heads, "head_dim": attention.key_dim} if attention else {}
    shape, _ = family_shape("mtp", model, {**usual, **heads, **(config or {})})
    shape = replace(shape, target_hidden=(config or {}).get("target_hidden", model.hidden))
    clustered = int(usual["clustered_rows"]) if _is_edge_gemma(model) else shape.vocab
    assumed = f"mtp: usual assistant assumed: {shape.layers} layers of width {shape.hidden}, MLP {shape.intermediate}."
    return Mtp(
        name=name,
        model=model,
        shape=shape,
        layers=_without_cache(decoder_layers(shape)),
        step_linears=(_assistant_projection(shape),),
        head=Linear("draft_head", shape.hidden, clustered),
        embedding_parameters=shape.vocab * shape.hidden,
        assistant=True,
        assumptions=() if config else (assumed,),
    )


def _assistant_projection(shape: Shape) -> Linear:
    return Linear("pre_projection", 2 * shape.target_hidden, shape.hidden, shard="replicated")


def _is_edge_gemma(model: Architecture) -> bool:
    """E2B and E4B assistants project on 4k clustered rows; told from the larger ones by their width."""
    return model.model_type.startswith("gemma4") and model.hidden <= 2560


def _without_cache(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Layers that read the target's cache: no key or value projection and nothing stored."""

    def shared(mixer: Any) -> Any:
        if not isinstance(mixer, Attention):
            return mixer
        return replace(mixer, stores_kv=False, linears=tuple(m for m in mixer.linears if m.name not in ("k", "v")))

    return tuple(replace(la, mixer=shared(la.mixer)) for la in layers)
