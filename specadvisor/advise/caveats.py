"""What a user should hear besides the numbers: published pitfalls that this case meets.

Each rule is one function that returns a sentence or None. The pitfalls come from public issue threads and published sweeps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specadvisor.advise import limits
from specadvisor.advise.case import Case
from specadvisor.advise.published import carried_over
from specadvisor.advise.recommendation import Curve, Load
from specadvisor.drafters.facts import engine_facts
from specadvisor.kernels import distinct_experts
from specadvisor.model.architecture import Moe
from specadvisor.step import Deployment

# First-position acceptance below these: probably a broken pairing, and almost certainly a bug (published threads).
BROKEN_PAIRING, BUG = 0.40, 0.20
TTFT_SHARE = 0.05


def _experts_grow(case: Case) -> str | None:
    experts = [la.feed_forward for la in case.deployment.model.layers if isinstance(la.feed_forward, Moe)]
    if not experts:
        return None
    column = int(np.argmin(case.load.concurrency))
    users, part = case.load.concurrency[column], experts[0]
    tokens = max(1, case.curve.choices[column].k) + 1
    one, more = (float(distinct_experts(np.asarray(float(users * n)), part.experts, part.top_k)) for n in (1, tokens))
    if more < 1.5 * one:
        return None
    return (
        f"MoE at concurrency {users}: verifying {tokens} tokens reads about {more:.0f} of {part.experts} experts "
        f"instead of {one:.0f}, so a verification costs more than a step; "
        "real routing of neighbouring tokens overlaps more than assumed."
    )


def _no_free_rows(case: Case) -> str | None:
    mla = [m for m in case.attention if m.kind == "mla" and not m.top_k]
    if not mla:
        return None
    heads = mla[0].heads_on_rank(case.deployment.tp)
    backend = case.deployment.serving.attention_backend(case.deployment.gpu, mla[0].key_dim, mla=True)
    if backend.free_draft_length(heads) > 0:
        return None
    return (
        f"MLA with {heads:.0f} query heads a rank has no free attention rows: attention time grows from the first draft token "
        f"({backend.name}). More tensor parallelism frees rows."
    )


def _sparse_per_token(case: Case) -> str | None:
    if any(m.top_k for m in case.attention):
        return "Sparse attention reads its chosen keys once per query token, so every draft token costs attention time."
    return None


def _verify_cliff(case: Case) -> str | None:
    deployment = case.deployment
    widths = dict.fromkeys(m.key_dim for m in case.attention if m.kind == "gqa")
    backends = [deployment.serving.attention_backend(deployment.gpu, width) for width in widths]
    found = [b for b in backends if not (b.packs and b.splits_kv_multi_query)]
    if not found:
        return None
    lost = [] if found[0].packs else ["reads the cache once per query head"]
    lost += [] if found[0].splits_kv_multi_query else ["does not split a long cache over the GPU"]
    return (
        f"{found[0].name} on this GPU {' and '.join(lost)} as soon as there is a draft token: expect a cliff "
        "from k = 0 to 1 at long context, steepest at the lowest loads."
    )


def _state_slots(case: Case) -> str | None:
    if not case.recurrent:
        return None
    rule = case.deployment.serving.states
    size = case.deployment.model.state_bytes_per_sequence / case.deployment.ranks / 1e6
    copies = float(rule.copies(case.k, bool(case.k)))
    pool = f" {case.deployment.serving.id} gives them {rule.pool_share:.0%} of the pool ({rule.option})." if rule.option else ""
    return (
        "Hybrid model: every draft token writes a recurrent state and keeps it to roll back to, "
        f"{copies:.0f} x {size:.0f} MB a request at this k: admission shrinks with k, and this cost has no free region.{pool}"
    )


def _prefix_cache(case: Case) -> str | None:
    if case.recurrent and case.deployment.serving.id == "vllm" and case.drafter.kind in ("mtp", "dflash", "dflash2", "dspark"):
        return (
            "vLLM has turned prefix-cache hits off on hybrid models with this kind of drafter: compare hit rates "
            "before and after."
        )
    return None


def _slower_first_token(case: Case) -> str | None:
    if case.load.input_tokens is None:
        return None
    extra = float(case.drafter.on(case.deployment).drafter_prefill_s(case.deployment, case.load.input_tokens))
    whole = float(np.asarray(case.curve.evaluation.prefill_s))
    if not whole or extra < TTFT_SHARE * whole:
        return None
    return f"Time to first token rises by about {extra * 1e3:.1f} ms ({extra / whole:.0%}): the drafter reads the prompt too."


def _short_training(case: Case) -> str | None:
    """A load beyond the context that the drafter was trained on: what was made of it, and what helps."""
    drafter = case.drafter
    factor = float(carried_over(drafter, case.load.context))
    if factor == 1.0:
        return None
    stated = drafter.trained_context
    if stated:
        text = f"{drafter.name} was trained on contexts up to {stated} tokens, and this load has {case.load.context}: "
    else:
        text = f"What contexts {drafter.name} was trained on is not known, and this load has {case.load.context}: "
    if case.curve.acceptance_known:
        text += f"AL - 1 falls to {factor:.2f} of what short prompts give. Yours is taken as measured at this context."
    else:
        text += f"AL - 1 is taken at {factor:.2f} of the catalogue's."
    if any(modifier.id == "draft-window" for modifier in drafter.modifiers):
        return text + " The window wins back only a part, since the drafter was not trained with it."
    return text + " YaRN in the drafter's config, or a window (--with draft-window=...), wins a part of it back."


def _broken_pairing(case: Case) -> str | None:
    first = float(case.curve.survival.s[0])
    if (
        not case.curve.acceptance_known
        or first >= BROKEN_PAIRING
        or case.drafter.kind in ("ngram", "suffix", "rest", "lookahead")
    ):
        return None
    sure = "is a bug, not a matter of tuning" if first < BUG else "is probably a broken pairing"
    return (
        f"First-position acceptance of {first:.0%} {sure}: check checkpoint, chat template, quantisation of "
        "the head and engine version."
    )


def _quantised_head(case: Case) -> str | None:
    if case.drafter.kind != "mtp" or case.deployment.model.weight_format in ("bf16", "fp16", "fp8", "fp8_block"):
        return None
    return (
        "Quantised checkpoint: MTP heads quantised with it have shown 0% acceptance; check that the head stays in 16 or 8 bit."
    )


def _power_limited(case: Case) -> str | None:
    if case.deployment.gpu.clock_scale >= 1.0:
        return None
    return (
        f"Clocks at {case.deployment.gpu.clock_scale:.0%}: verification is compute and slows down more "
        "than plain decoding, so the gain usually shrinks."
    )


def _greedy_drafts(case: Case) -> str | None:
    if case.load.temperature > 0 and case.drafter.kind == "draft_model":
        return (
            "Above temperature 0 an external draft model loses about a third of its accepted tokens where the "
            "engine drafts greedily."
        )
    return None


def _own_gpus(case: Case) -> str | None:
    extra, gpus = case.curve.evaluation.extra_gpus, case.deployment.ranks
    if not extra:
        return None
    return (
        f"{case.drafter.name} drafts on {extra} more GPU(s) a replica: gains in throughput are per GPU, "
        f"{gpus / (gpus + extra):.0%} of the whole."
    )


def _lookup(case: Case) -> str | None:
    """What a miss costs, and where the engine itself would not look up."""
    facts, engine, kind = engine_facts(), case.deployment.serving.id, case.drafter.kind
    if not case.drafter.lookup or engine not in facts["padded_lookup"]["engines"]:
        return None
    text = f"{engine} verifies k + 1 rows of every request, also of those for which {kind} found nothing: misses are not free."
    limit = facts["lookup_limit"].get(engine, {}).get(kind)
    if limit and max(case.load.concurrency) / case.deployment.dp >= limit:
        text += (
            f" Its AUTO mode takes {kind} below {limit} requests only; published at 32: 1.33x (Llama-4-Scout, second turns of "
            "chats), 0.88x (a 70B, AL 1.41) and 0.29x (gpt-oss-120b, AL 1.31), so measure it."
        )
    return text


def _lossy_rule(case: Case) -> str | None:
    return f"{case.drafter.name} changes the distribution of the output." if case.drafter.lossy else None


RULES: tuple[Callable[[Case], str | None], ...] = (
    _experts_grow, _no_free_rows, _sparse_per_token, _verify_cliff, _state_slots, _prefix_cache,
    _slower_first_token, limits.rows_cost, limits.past_graphs, limits.queueing, limits.admission_default, limits.beyond_context,
    _short_training, _broken_pairing, _quantised_head, _power_limited, _greedy_drafts, _own_gpus, _lookup, _lossy_rule,
)  # fmt: skip


def caveats(deployment: Deployment, load: Load, curve: Curve) -> tuple[str, ...]:
    """Every sentence that applies to ``curve``'s drafter under ``load``."""
    case = Case(deployment, load, curve)
    return tuple(text for rule in RULES if (text := rule(case)))
