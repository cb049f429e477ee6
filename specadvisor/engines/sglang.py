"""SGLang's command line (written for 0.5.15 to 0.5.23): ``--speculative-*`` and the adaptive file."""

from __future__ import annotations

import json

import numpy as np

from specadvisor.engines.plan import TOKEN_MAP, LaunchPlan, Words, command, comments, ranks, supported
from specadvisor.ranges import FloatArray
from specadvisor.serving import ServingEngine, graphs, load_engine

VERSIONS = "0.5.15 to 0.5.23"
WITHOUT_FILE = ("mtp", "ngram")
ADAPTIVE = ("EAGLE", "EAGLE3", "NEXTN")
TREES = (*ADAPTIVE, "STANDALONE")
BLOCK_VERIFICATION = (*ADAPTIVE, "DFLASH", "DSPARK")
DRAFT_WINDOW = (*ADAPTIVE, "DFLASH")
TREE_NOTE = "a tree does not run on trtllm_mha; with pages above one token only on flashinfer, fa3 or triton"
ADAPTIVE_FILE = "specadvisor_adaptive.json"
RUNNING_REQUESTS = 48


def flags(plan: LaunchPlan) -> str:
    """The ``sglang.launch_server`` command of ``plan``, after the adaptive file where the plan has a schedule."""
    engine = load_engine("sglang", plan.version)
    words: Words = ["python -m sglang.launch_server", ("--model-path", plan.model), *ranks(plan, "--tp-size", "--dp-size")]
    notes = [f"SGLang, written for {VERSIONS}", *engine.notes[1:]]
    if not plan.speculates:
        return comments(*notes, "no speculation") + command(words)
    method = supported(plan, engine)
    words += _drafter(plan, method.method)
    modifiers = _modifiers(plan, method.method)
    words += [word for settings in modifiers.values() for word in settings]
    notes += [*plan.not_written(engine, modifiers), TREE_NOTE if "tree" in modifiers else ""]
    adaptive = len(plan.tiers) > 1 and method.method in ADAPTIVE and not plan.tree
    file = ""
    if adaptive:
        words += ["--speculative-adaptive", ("--speculative-adaptive-config", ADAPTIVE_FILE)]
        text = json.dumps(adaptive_config(plan, engine))
        file = f"cat > {ADAPTIVE_FILE} <<'EOF'\n{text}\nEOF\n"
    elif len(plan.tiers) > 1:
        only = f"draft length by running requests exists for chains of {', '.join(ADAPTIVE)} only"
        notes.append(f"{only}: k = {_k(plan, method.method)} always")
    words += _limits(plan, engine)
    return comments(*notes, method.note) + file + command(words)


def adaptive_config(plan: LaunchPlan, engine: ServingEngine) -> dict[str, dict[str, list[int]]]:
    """A static table for ``--speculative-adaptive-config``: one candidate per slot, so that a slot never moves.

    SGLang pads the batch to the CUDA-graph grid before it looks the slot up (floor match): a key inside a gap of the grid
    would already apply to smaller batches. Keys are therefore moved down to the grid point below plus one.
    """
    grid = _grid(plan, engine)
    slots = {}
    for first, _, k in plan.tiers:
        below = int(grid[np.searchsorted(grid, first - 1, side="right") - 1]) if first > 1 else 0
        slots[str(below + 1)] = {"candidate_steps": [k]}
    return slots


def _grid(plan: LaunchPlan, engine: ServingEngine) -> FloatArray:
    largest = max(plan.concurrency_max, plan.tiers[-1][0])
    if plan.gpu:
        ceiling = engine.graph_ceiling(plan.gpu, 1, 2, max_requests=max(largest, RUNNING_REQUESTS), tp=plan.tp) / 2
        largest = max(largest, int(ceiling))
    return graphs.sglang_grid(largest, True)


def _k(plan: LaunchPlan, method: str) -> int:
    """The draft length on the command line: the adaptive file's longest where there is one, else the best single one."""
    return plan.k_max if method in ADAPTIVE and not plan.tree else plan.k or plan.k_max


def _drafter(plan: LaunchPlan, method: str) -> Words:
    """num-draft-tokens counts the root: k + 1. Block drafters take their width, DSPARK without and DFLASH with the anchor."""
    k = _k(plan, method)
    words: Words = [("--speculative-algorithm", method)]
    if plan.names_drafter(WITHOUT_FILE):
        words.append(("--speculative-draft-model-path", plan.drafter))
    if method == "DFLASH":
        return [*words, ("--speculative-dflash-block-size", k + 1)]
    if method == "DSPARK":
        return [*words, ("--speculative-dspark-block-size", k)]
    if method == "NGRAM":
        return [*words, ("--speculative-num-draft-tokens", k + 1)]
    width, tokens = (plan.tree.topk, int(plan.tree.verified(k))) if plan.tree else (1, k + 1)
    shape: Words = [("--speculative-eagle-topk", width), ("--speculative-num-draft-tokens", tokens)]
    return [*words, ("--speculative-num-steps", k), *shape]


def _modifiers(plan: LaunchPlan, method: str) -> dict[str, Words]:
    """The options of each modifier that SGLang has, by its id; a tree's are part of the drafter's own.

    EAGLE3 drafters bring their vocabulary, SGLang ignores a token map for them.
    """
    found: dict[str, Words] = {"tree": []} if plan.tree and method in TREES else {}
    for modifier in plan.modifiers:
        match modifier.id:
            case "block-verification" if method in BLOCK_VERIFICATION and not plan.tree:
                found[modifier.id] = ["--speculative-use-block-verification"]
            case "draft-vocab" if method in ("EAGLE", "NEXTN"):
                found[modifier.id] = [("--speculative-token-map", TOKEN_MAP)]
            case "draft-window" if method in DRAFT_WINDOW:
                found[modifier.id] = [("--speculative-draft-window-size", modifier.value)]
    return found


def _limits(plan: LaunchPlan, engine: ServingEngine) -> Words:
    """Speculation lowers the running requests to 48 unless set; graphs stop at a batch that depends on the GPU."""
    words: Words = []
    if plan.concurrency_max > RUNNING_REQUESTS:
        words.append(("--max-running-requests", plan.concurrency_max))
    if plan.gpu:
        ceiling = engine.graph_ceiling(plan.gpu, 1, 2, max_requests=max(plan.concurrency_max, RUNNING_REQUESTS), tp=plan.tp) / 2
        if plan.concurrency_max > ceiling:
            words.append(("--cuda-graph-max-bs-decode", plan.concurrency_max))
    return words
