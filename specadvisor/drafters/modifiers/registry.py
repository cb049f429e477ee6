"""Every modifier, one line each, and how a user names one."""

from __future__ import annotations

from specadvisor.drafters.modifiers import adaptive, hidden, reshape, scheduling, trees, verification, vocabulary
from specadvisor.drafters.modifiers.base import Modifier
from specadvisor.errors import InputError, nearest

MODIFIERS: dict[str, type[Modifier]] = {
    m.id: m
    for m in (
        vocabulary.DraftVocabulary,
        vocabulary.SpeculativeVocabulary,
        adaptive.DCut,
        adaptive.ConfidenceScheduler,
        scheduling.OverlapScheduling,
        scheduling.DynamicLength,
        verification.BlockVerification,
        verification.TraversalVerification,
        verification.VariationalTraining,
        hidden.SpeculativePipeline,
        hidden.SpeculativeSpeculation,
        hidden.Pearl,
        verification.JudgeDecoding,
        verification.TypicalAcceptance,
        verification.RelaxedAcceptance,
        trees.TreeDrafting,
        trees.SequoiaTree,
        reshape.DraftWindow,
        reshape.DraftFormat,
        reshape.HeadFormat,
        reshape.DraftTensorParallel,
        verification.Combined,
    )
}
ALIASES = {
    "fr-spec": "draft-vocab", "vocabtrim": "draft-vocab", "specvocab": "spec-vocab",
    "adaptive-verification": "confidence-scheduler",
    "dcut": "d-cut", "spec-v2": "overlap-scheduling", "async-scheduling": "overlap-scheduling", "turbospec": "dynamic-length",
    "smartspec": "dynamic-length", "saguaro": "ssd", "judge": "judge-decoding", "vsd": "variational-training",
    "typical": "typical-acceptance", "relaxed": "relaxed-acceptance", "pipeline": "speculative-pipeline",
    "sliding-window": "draft-window",
}  # fmt: skip


def parse_modifier(text: str) -> Modifier:
    """``name`` or ``name=value``: ``block-verification``, ``draft-vocab=32000``, ``tree=topk4/steps4/tokens8``.

    Raises ``InputError`` for an unknown name, a value where none is taken, or none where one is needed.
    """
    name, _, value = str(text).strip().partition("=")
    key = name.strip().lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key not in MODIFIERS:
        raise InputError("modifier", name, ", ".join(MODIFIERS), nearest(key, [*MODIFIERS, *ALIASES]))
    family = MODIFIERS[key]
    if value and not family.takes:
        raise InputError("modifier", text, f"{key} without a value")
    if not value and family.takes and not family.optional:
        raise InputError("modifier", text, f"{key}=<value>: {family.takes}")
    return family(value.strip().lower())
