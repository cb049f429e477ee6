"""llama-server's command line (written for builds b10749 to b11223): ``--spec-*``."""

from __future__ import annotations

from specadvisor.engines.plan import LaunchPlan, Words, command, comments, supported
from specadvisor.serving import load_engine

VERSIONS = "b10749 to b11223; older builds have other names and defaults (--draft-max 16, --draft-p-min 0.75)"
WITHOUT_FILE = ("mtp", "ngram", "suffix")
MOD_N_MIN = 48
EVERY_LAYER = 999


def flags(plan: LaunchPlan) -> str:
    """The ``llama-server`` command of ``plan``. There is no draft length by load: ``plan.k`` holds at every load."""
    engine = load_engine("llama_cpp", plan.version)
    words: Words = ["llama-server", ("-m", plan.model), ("-ngl", EVERY_LAYER)]
    if plan.request_tokens:
        words.append(("-c", plan.request_tokens * plan.concurrency_max))
    if plan.concurrency_max > 1:
        words.append(("--parallel", plan.concurrency_max))
    notes = [f"llama.cpp, written for {VERSIONS}", *engine.notes[1:]]
    if not plan.model.endswith(".gguf"):
        notes.append("-m (and -md) take .gguf files: write their paths; -c is shared by all --parallel requests")
    if not plan.speculates:
        return comments(*notes, "no speculation") + command(words)
    support = supported(plan, engine)
    notes += plan.not_written(engine, ())
    k = plan.k or plan.k_max
    if len(plan.tiers) > 1:
        notes.append(f"llama.cpp has no draft length by load: k = {k} always")
    words.append(("--spec-type", support.method))
    if plan.drafter_path or plan.kind not in WITHOUT_FILE:
        words.append(("-md", plan.drafter))
    if support.method == "ngram-simple":
        words.append(("--spec-ngram-simple-size-m", k))
    elif support.method == "ngram-mod":
        words += [("--spec-ngram-mod-n-min", min(k, MOD_N_MIN)), ("--spec-ngram-mod-n-max", k)]
    else:
        words.append(("--spec-draft-n-max", k))
    return comments(*notes, support.note) + command(words)
