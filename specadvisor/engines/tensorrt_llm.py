"""TensorRT-LLM's YAML file (written for the names of 1.3 to 1.4.0rc4): ``speculative_config``."""

from __future__ import annotations

import json
import shlex

from specadvisor.engines.plan import LaunchPlan, Words, command, comments, ranks, supported
from specadvisor.serving import load_engine

VERSIONS = "1.3 to 1.4.0rc4; before about 1.3.0rc20 acceptance settings had other names"
FILE = "specadvisor_trtllm.yaml"
WITHOUT_FILE = ("mtp", "ngram", "suffix")
# The rule that the priced gain was published for.
RELAXED = ["use_relaxed_acceptance_for_thinking: true", "relaxed_topk: 10", "relaxed_delta: 0.6"]
OLD_SCHEDULE = "draft_len_schedule counts up to each batch size; builds before March 2026 read it as from that size on"
NO_OVERLAP = ("DraftTarget", "NGram")


def flags(plan: LaunchPlan) -> str:
    """A here-document with the YAML file, and the ``trtllm-serve`` command that reads it."""
    engine = load_engine("tensorrt_llm", plan.version)
    words: Words = ["trtllm-serve " + shlex.quote(plan.model), *ranks(plan, "--tp_size")]
    notes = [f"TensorRT-LLM, written for {VERSIONS}", *engine.notes[1:]]
    if not plan.speculates:
        return comments(*notes, "no speculation") + command(words)
    support = supported(plan, engine)
    not_written = plan.not_written(engine, _modifiers(plan, support.method))
    words.append(("--config", FILE))
    file = f"cat > {FILE} <<'EOF'\n{yaml_text(plan, support.method)}EOF\n"
    return comments(*notes, *_changes(plan), *not_written, support.note) + file + command(words)


def yaml_text(plan: LaunchPlan, method: str) -> str:
    """The file. ``draft_len_schedule`` maps "up to this batch size" to k, nothing is drafted above its last key; the k of its
    first key has to equal ``max_draft_len`` (TensorRT-LLM PR 10860).
    """
    schedule = _schedule(plan)
    draft_len = plan.tiers[0][2] if schedule else plan.k or plan.k_max
    lines = ["speculative_config:", f"  decoding_type: {method}", f"  max_draft_len: {draft_len}"]
    if method == "MTP":
        lines.append(f"  num_nextn_predict_layers: {draft_len}")
    if plan.names_drafter(WITHOUT_FILE):
        lines.append(f"  speculative_model: {json.dumps(plan.drafter)}")
    lines += [f"  {line}" for settings in _modifiers(plan, method).values() for line in settings]
    if schedule:
        lines.append("  draft_len_schedule: {" + ", ".join(f"{last}: {k}" for last, k in schedule.items()) + "}")
    if method in NO_OVERLAP:
        lines.append("disable_overlap_scheduler: true")
    lines += ["cuda_graph_config:", "  enable_padding: true"]
    if plan.concurrency_max > 128:
        lines += [f"  max_batch_size: {plan.concurrency_max}"]
    return "\n".join(lines) + "\n"


def _modifiers(plan: LaunchPlan, method: str) -> dict[str, list[str]]:
    """The lines of each modifier that TensorRT-LLM has a setting for, by its id; a tree's tokens count without the root."""
    found: dict[str, list[str]] = {}
    if plan.tree and method == "Eagle3":
        width, tokens = plan.tree.topk, int(plan.tree.verified(plan.k or plan.k_max))
        sizes = [f"dynamic_tree_max_topK: {width}", f"max_total_draft_tokens: {tokens - 1}"]
        found["tree"] = ["use_dynamic_tree: true", *sizes]
    for modifier in plan.modifiers:
        match modifier.id:
            case "confidence-scheduler" if method == "DSpark" and not modifier.value:
                found[modifier.id] = ["enable_confidence_scheduling: true"]
            case "relaxed-acceptance" if method == "MTP":
                found[modifier.id] = RELAXED
    return found


def _changes(plan: LaunchPlan) -> list[str]:
    """Where the file cannot say what the plan does."""
    if len(plan.tiers) == 1:
        return []
    if plan.tree:
        return [f"a tree has one depth: k = {plan.k or plan.k_max} always"]
    if not _schedule(plan):
        return [f"drafts that start at k = 0 are not expressible: k = {plan.k or plan.k_max} always"]
    longest = plan.tiers[0][2]
    capped = [f"{first}-{last}: {k}" for first, last, k in plan.tiers if k > longest]
    if not capped:
        return [OLD_SCHEDULE]
    return [OLD_SCHEDULE, f"draft_len_schedule may not exceed its first entry: {', '.join(capped)} written as {longest}"]


def _schedule(plan: LaunchPlan) -> dict[int, int]:
    """Last batch size of each tier -> k, capped at the k of batch 1; empty for one tier, a tree, or no drafts at batch 1.

    A last tier that drafts runs to the stated concurrency; one that does not needs no key.
    """
    first_k = plan.tiers[0][2]
    if len(plan.tiers) == 1 or first_k == 0 or plan.tree:
        return {}
    table = {last: min(k, first_k) for _, last, k in plan.tiers}
    last, k = table.popitem()
    return table | ({max(last, plan.concurrency_max): k} if k else {})
