"""vLLM's command line (written for 0.27 to 0.33.0): ``--speculative-config`` and the limits that the plan runs into."""

from __future__ import annotations

import json
import shlex
from typing import Any

from specadvisor.engines.plan import LaunchPlan, Words, command, comments, ranks, supported
from specadvisor.serving import ServingEngine, load_engine, version_key
from specadvisor.serving.graphs import vllm_count

VERSIONS = "0.27 to 0.33.0"
SCHEDULE_SINCE = "0.27"
GRAPHS = "--max-cudagraph-capture-size"
WITHOUT_FILE = ("mtp", "ngram", "suffix")
# Kinds that fall back to the older model runner: its rejection sampler knows no block verification.
OLDER_RUNNER = ("suffix", "p_eagle", "pard")
HEAD_FORMATS, HEAD_KINDS = ("fp8", "nvfp4"), ("eagle", "eagle2", "eagle3", "eagle3_1", "mtp")


def flags(plan: LaunchPlan) -> str:
    """The ``vllm serve`` command of ``plan``. Raises ``InputError`` for a drafter that this version does not run."""
    engine = load_engine("vllm", plan.version)
    words: Words = ["vllm serve " + shlex.quote(plan.model), *ranks(plan, "--tensor-parallel-size", "--data-parallel-size")]
    notes = [f"vLLM, written for {VERSIONS}", *engine.notes[1:]]
    if not plan.speculates:
        words += _plain_limits(plan, engine)
        return comments(*notes, "no speculation", *_graph_notes(words, engine, plan)) + command(words)
    support = supported(plan, engine)
    if plan.gpu:
        words += _limits(plan, engine)
    words.append(("--speculative-config", json.dumps(speculative_config(plan, engine))))
    notes += [*_schedule_notes(plan, engine), *plan.not_written(engine, _modifiers(plan))]
    return comments(*notes, *_graph_notes(words, engine, plan), support.note) + command(words)


def speculative_config(plan: LaunchPlan, engine: ServingEngine) -> dict[str, Any]:
    """The JSON object of ``--speculative-config``. Unknown keys stop the server, so nothing unneeded is written.

    With a schedule, ``num_speculative_tokens`` caps its entries, and the last entry runs to the limit on requests.
    """
    config: dict[str, Any] = {"method": supported(plan, engine).method}
    if plan.names_drafter(WITHOUT_FILE):
        config["model"] = plan.drafter
    scheduled = len(plan.tiers) > 1 and _takes_schedule(plan, engine)
    config["num_speculative_tokens"] = plan.k_max if scheduled else plan.k or plan.k_max
    config.update(engine.drafters[plan.kind].settings)
    if plan.foreign_vocabulary:
        config["use_heterogeneous_vocab"] = True
    for settings in _modifiers(plan).values():
        config.update(settings)
    if scheduled:
        table = [list(tier) for tier in plan.tiers]
        limit = engine.max_requests(plan.gpu, speculating=True) if plan.gpu else plan.concurrency_max
        table[-1][1] = max(table[-1][1], limit, plan.concurrency_max)
        config["num_speculative_tokens_per_batch_size"] = table
    return config


def _modifiers(plan: LaunchPlan) -> dict[str, dict[str, Any]]:
    """The keys of each modifier that vLLM has a setting for, by its id.

    Block verification needs the draft's probabilities, which a foreign vocabulary has none of, and the newer model runner.
    """
    found: dict[str, dict[str, Any]] = {}
    for modifier in plan.modifiers:
        match modifier.id:
            case "block-verification" if not (plan.kind in OLDER_RUNNER or plan.foreign_vocabulary):
                found[modifier.id] = {"rejection_sample_method": "block", "draft_sample_method": "probabilistic"}
            case "draft-tp" if modifier.value in ("1", str(plan.tp)):
                found[modifier.id] = {"draft_tensor_parallel_size": int(modifier.value)}
            case "head-format" if modifier.value in HEAD_FORMATS and plan.kind in HEAD_KINDS:
                found[modifier.id] = {"draft_lm_head_quantization": modifier.value}
            case "confidence-scheduler" if plan.kind == "dspark" and not modifier.value:
                found[modifier.id] = {"enable_adaptive_verification": True}
    return found


def _takes_schedule(plan: LaunchPlan, engine: ServingEngine) -> bool:
    """Not for ``suffix``: the older model runner drops the table for it."""
    return plan.dp == 1 and plan.kind != "suffix" and version_key(engine.version) >= version_key(SCHEDULE_SINCE)


def _schedule_notes(plan: LaunchPlan, engine: ServingEngine) -> list[str]:
    if len(plan.tiers) == 1:
        return []
    table = ", ".join(f"{first}-{last}: {k}" for first, last, k in plan.tiers)
    if not _takes_schedule(plan, engine):
        drops = "data parallelism ignores it" if plan.dp > 1 else "suffix ignores it" if plan.kind == "suffix" else ""
        why = drops or f"it needs vLLM >= {SCHEDULE_SINCE}"
        return [f"draft length by running requests ({table}) is not written: {why}"]
    graphs = "each draft length has its own graphs: more capture time and memory"
    if plan.kind in OLDER_RUNNER or plan.foreign_vocabulary:
        graphs = "the older model runner then captures its graphs in pieces, which launches attention eagerly"
    return [graphs, *(["0 keeps the drafter loaded and idle"] if any(k == 0 for *_, k in plan.tiers) else [])]


def _graph_notes(words: Words, engine: ServingEngine, plan: LaunchPlan) -> list[str]:
    """What a raised ceiling of CUDA graphs costs."""
    size = next((int(str(word[1])) for word in words if word[0] == GRAPHS), 0)
    if not size or plan.gpu is None:
        return []
    default = int(engine.graph_ceiling(plan.gpu, 1, 1))
    return [
        f"graphs of up to {size} tokens instead of {default} take more memory and start-up time; without the option larger",
        "batches run without a graph. If memory runs out, lower it, and check the KV cache size that the server prints",
    ]


def _limits(plan: LaunchPlan, engine: ServingEngine) -> Words:
    """Options for limits below the plan: running requests, and the token ceiling of full decode graphs.

    A batch of B requests pads to the next captured count b >= B, so b * (1 + k) tokens have to be captured.
    """
    assert plan.gpu is not None
    words: Words = []
    if plan.concurrency_max > engine.max_requests(plan.gpu, speculating=True):
        words.append(("--max-num-seqs", plan.concurrency_max))
    batches = plan.graph_batches if _takes_schedule(plan, engine) else ((plan.concurrency_max, (plan.k or plan.k_max) + 1),)
    beyond = [
        vllm_count(batch) * query for batch, query in batches if batch * query > engine.graph_ceiling(plan.gpu, batch, query)
    ]
    budget = max([*beyond, *(int(batch * engine.budget_rows(plan.kind, query - 1, plan.k_max)) for batch, query in batches)])
    if budget > engine.token_budget(plan.gpu):
        words.append(("--max-num-batched-tokens", budget))
    if beyond:
        words.append((GRAPHS, max(beyond)))
    return words


def _plain_limits(plan: LaunchPlan, engine: ServingEngine) -> Words:
    """The same limits for plain decoding."""
    if plan.gpu is None:
        return []
    words: Words = []
    if plan.concurrency_max > engine.max_requests(plan.gpu):
        words.append(("--max-num-seqs", plan.concurrency_max))
    if plan.concurrency_max > engine.graph_ceiling(plan.gpu, plan.concurrency_max, 1):
        words.append((GRAPHS, vllm_count(plan.concurrency_max)))
    return words
