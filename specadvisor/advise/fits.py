"""Which drafters leave room for at least one whole request of the stated length."""

from __future__ import annotations

from dataclasses import replace

from specadvisor.advise.candidates import Candidates
from specadvisor.advise.recommendation import Load
from specadvisor.errors import DoesNotFit
from specadvisor.step import Deployment, Memory, resident
from specadvisor.step.memory import sequence_bytes


def that_fit(deployment: Deployment, load: Load, found: Candidates) -> Candidates:
    """``found`` without the drafters beside which one request at its end does not fit, those excluded with the reason.

    Raises ``DoesNotFit`` where it does not fit without a drafter either, or beside none of the drafters asked for.
    """
    tokens = load.request_tokens
    plain = resident(deployment)
    if sequence_bytes(deployment, plain, tokens) > plain.kv_pool_bytes:
        raise DoesNotFit(f"{deployment.model.name} on {deployment.gpu.id}: {_too_long(plain, tokens)}.")
    kept, excluded = [], dict(found.excluded)
    for drafter in found.drafters:
        memory = resident(deployment, drafter.on(deployment))
        slots = drafter.held_slots(deployment.serving, 1.0)
        held = sequence_bytes(deployment, memory, tokens, slots=slots, k=1.0, speculating=True)
        if held > memory.kv_pool_bytes:
            excluded[drafter.name] = _too_long(memory, tokens)
        else:
            kept.append(drafter)
    if found.asked and not kept:
        name = found.drafters[0].name
        raise DoesNotFit(f"{deployment.model.name} with {name} on {deployment.gpu.id}: {excluded[name]}.")
    return replace(found, drafters=tuple(kept), excluded=excluded)


def _too_long(memory: Memory, tokens: int) -> str:
    return f"one request of {tokens:,} tokens does not fit a KV pool of {memory.kv_pool_tokens:,.0f} tokens"
