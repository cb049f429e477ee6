"""An external small language model, and PARD, which drafts all tokens in one pass of such a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specadvisor.drafters.facts import engine_facts
from specadvisor.drafters.parts import Shape, decoder_layers, target_attention
from specadvisor.drafters.round import Load, Round
from specadvisor.drafters.sequential import SequentialDrafter
from specadvisor.model.architecture import Architecture, Linear
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.layers import layers_time

if TYPE_CHECKING:
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class DraftModel(SequentialDrafter):
    """k autoregressive passes of a whole small model: t = pass(r) + (k - 1) pass(1) + k head(B, V)  (2211.17192)."""

    kind = "draft_model"
    needs_target_states = False

    vocab: int = 0

    def legality(self, model: Architecture, serving: ServingEngine) -> str | None:
        """Besides the engine's support: one vocabulary, except where the engine maps token ids between two."""
        if reason := super().legality(model, serving):
            return reason
        return self.vocabulary_reason(model, serving)

    @property
    def shares_vocabulary(self) -> bool:
        """Vocabularies count as one when they differ only by padding rows (Qwen: 151936 and 152064)."""
        return abs(self.vocab - self.model.vocab) <= 0.01 * self.model.vocab

    def vocabulary_reason(self, model: Architecture, serving: ServingEngine) -> str | None:
        """None where the vocabulary is the target's, or the engine translates."""
        if self.shares_vocabulary or serving.id in engine_facts()["heterogeneous_vocabulary"]["engines"]:
            return None
        return f"{self.name} has {self.vocab} tokens, {model.name} has {model.vocab}: {serving.id} needs one vocabulary"


class Pard(DraftModel):
    """PARD (2504.18583): mask tokens let one pass of the small model over r + k - 1 rows draft all k tokens."""

    kind = "pard"

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k, context, accepted = load.batch, load.k, load.context, load.accepted
        rows = self.catch_up_rows(deployment.serving, k, accepted) + k - 1.0
        draft = layers_time(deployment, self.layers, batch, rows, context)
        draft = draft + head_time(deployment, self.step_head, batch * k)
        draft = draft + sampling_time(deployment, batch * k, self.step_head.out_features)
        layers = k * 0.0 + self.layer_count
        return Round(
            draft=draft + self.launches(deployment, 1.0, layers),
            verified_tokens=1.0 + self.verified_drafts(k),
        )


def from_architecture(
    small: Architecture, model: Architecture, name: str, kind: str, assumptions: tuple[str, ...] = ()
) -> DraftModel:
    """The drafter that runs ``small``: own embedding, layers, head and cache."""
    family = Pard if kind == "pard" else DraftModel
    return family(
        name=name,
        model=model,
        layers=small.layers,
        head=small.head,
        owns_head=not small.tied,
        embedding_parameters=small.embedding_parameters + small.lookup_parameters,
        vocab=small.vocab,
        assumptions=(*small.warnings, *assumptions),
    )


def small_architecture(model: Architecture) -> Architecture:
    """A dense model of about a twentieth of the target's active parameters, in the proportions of Qwen3-0.6B.

    Width h/4, three quarters of the depth, MLP 3 times the width, heads of the target's size, tied head.
    """
    attention = target_attention(model)
    width = max(512, round(model.hidden / 4 / 128) * 128)
    head_dim = attention.key_dim if attention and attention.kind == "gqa" else 128
    heads = max(4, 2 * width // head_dim)
    shape = Shape(
        hidden=width,
        layers=max(4, round(0.75 * model.layer_count)),
        intermediate=3 * width,
        heads=heads,
        kv_heads=max(1, heads // 2),
        head_dim=head_dim,
        vocab=model.vocab,
        draft_vocab=model.vocab,
        target_hidden=width,
    )
    head = Linear("lm_head", width, model.vocab)
    return Architecture(
        name=f"a {width}-wide model", model_type="llama", hidden=width, vocab=model.vocab, layers=decoder_layers(shape),
        head=head,
        tied=True, weight_format="bf16", kv_format=model.kv_format,
    )  # fmt: skip


def build(model: Architecture, small: Architecture | None, name: str, kind: str, note: str = "") -> DraftModel:
    """Drafter of ``small``, or of an assumed small model where none is known."""
    if small is not None:
        return from_architecture(small, model, name, kind, (note,) if note else ())
    assumed = small_architecture(model)
    text = (
        f"{kind}: no small model with the vocabulary of {model.name} ships with specadvisor; assumed "
        f"{assumed.layer_count} layers of width {assumed.hidden}, {assumed.total_parameters / 1e9:.2f} B parameters."
    )
    return from_architecture(assumed, model, name, kind, (text,))
