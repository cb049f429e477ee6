"""The trace of one point: what each number is made of and which source it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.advise.anchor import Anchor, read_anchors
from specadvisor.advise.candidates import Candidates
from specadvisor.advise.evaluate import Evaluation, evaluate
from specadvisor.advise.guidelines import GuidelineTrace, trace
from specadvisor.advise.rank import anchored
from specadvisor.advise.recommendation import Load
from specadvisor.advise.uncertainty import operator_sigmas
from specadvisor.checks import whole
from specadvisor.hardware.kernel_profile import USER
from specadvisor.kernels.parameters import find_entry
from specadvisor.model import Attention
from specadvisor.ranges import Range
from specadvisor.step import Deployment


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """Seconds of one component in a plain step, in drafting and in verification; ``sigma`` is its relative error."""

    component: str
    step_s: float
    draft_s: float
    verify_s: float
    sigma: float
    formula: str
    source: str


@dataclass(frozen=True)
class Explanation:
    """One (drafter, k, concurrency): times by component, result, guidelines and provenance.

    ``throughput_speedup`` is per GPU, ``throughput_tok_s`` of all of them, those that only draft (``extra_gpus``) included.
    ``missing``: what of it the engine cannot run.
    """

    deployment: Deployment
    load: Load
    drafter: str
    k: int
    concurrency: int
    step_s: float
    round_s: float
    draft_s: float
    acceptance_length: Range
    acceptance_source: str
    batch: float
    batch_without: float
    throughput_tok_s: float
    throughput_tok_s_without: float
    extra_gpus: int
    throughput_speedup: Range
    tpot_speedup: Range
    components: tuple[ComponentRow, ...]
    guidelines: GuidelineTrace
    missing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary with ``schema_version``."""
        from specadvisor.report.data import explanation_dict

        return explanation_dict(self)


HOST_FACTS = ("host_s", "round_overhead_s", "draft_pass_s", "draft_layer_launch_s", "eager_layer_s")
FORMULAS: Mapping[str, tuple[str, str]] = {
    "gemm": ("gemm", "t0 + tk K/1024 + (memory^4 + compute^4)^(1/4) per matrix, M = padded batch x (k + 1)"),
    "head": ("gemm", "the same law on hidden x vocabulary, every verified position"),
    "attention": ("attention", "t0 + cache read once per tile pass, or multiplied rows where they take longer"),
    "moe": ("moe", "distinct experts E (1 - (1 - topk/E)^T) read once, T = batch x (k + 1)"),
    "recurrent": ("recurrent", "one state read, k + 1 states written"),
    "collective": ("all_reduce", "latency + bytes / bandwidth, twice a layer"),
    "sampling": ("memory", "passes over rows x vocabulary 4-byte logits"),
    "elementwise": ("memory", "about 12 passes over the hidden state a layer"),
    "host": ("", "host time that the GPU waits for, per step, round and draft pass"),
}


def explain(deployment: Deployment, found: Candidates, load: Load, k: int, anchors: Sequence[str | Anchor] = ()) -> Explanation:
    """Trace the first candidate at ``k`` (0: plain decoding beside the drafter) and the first concurrency of ``load``.

    ``anchors`` correct the speed-ups and the throughput; the times stay the predicted ones.
    """
    drafter = found.drafters[0]
    k = whole("k", k, 0, drafter.k_max)
    survival = found.survival[drafter.name]
    ks = np.asarray(drafter.allowed_k(), dtype=float)[:, None]
    users = np.asarray(load.concurrency[:1], dtype=float)[None, :]
    evaluation = evaluate(deployment, drafter, survival, ks, users, float(load.context), load.input_tokens, load.output_tokens)
    row = int(np.searchsorted(ks.ravel(), max(k, 1)))
    speedup, tpot = evaluation.throughput_speedup, evaluation.tpot_speedup
    if fix := anchored(deployment, drafter, survival, load, read_anchors(anchors, [drafter.kind])):
        speedup, tpot = fix.apply(speedup, users), fix.apply(tpot, users)

    def at(values: Any) -> float:
        return float(np.broadcast_to(values, ks.shape)[row, 0])

    def ranged(value: Range) -> Range:
        return Range(at(value.low), at(value.mid), at(value.high))

    one = Range(1.0, 1.0, 1.0)
    step_s = at(evaluation.baseline.total_s)
    return Explanation(
        deployment=deployment,
        load=load,
        drafter=drafter.name,
        k=k,
        concurrency=load.concurrency[0],
        step_s=step_s,
        round_s=at(evaluation.round_s) if k else step_s,
        draft_s=at(evaluation.draft_s) if k else 0.0,
        acceptance_length=ranged(evaluation.acceptance_length) if k else one,
        acceptance_source=survival.source,
        batch=at(evaluation.batch) if k else at(evaluation.baseline_batch),
        batch_without=at(evaluation.baseline_batch),
        throughput_tok_s=at(evaluation.baseline_throughput_tok_s * (speedup.mid / evaluation.gpu_share if k else 1.0)),
        throughput_tok_s_without=at(evaluation.baseline_throughput_tok_s),
        extra_gpus=evaluation.extra_gpus if k else 0,
        throughput_speedup=ranged(speedup) if k else one,
        tpot_speedup=ranged(tpot) if k else one,
        components=_rows(deployment, evaluation, row, k),
        guidelines=trace(deployment, drafter, survival, evaluation, 0, k),
        missing=drafter.not_shipped(deployment.serving) if k else (),
    )


def _rows(deployment: Deployment, evaluation: Evaluation, row: int, k: int) -> tuple[ComponentRow, ...]:
    sigmas = operator_sigmas(deployment)

    def at(values: Any) -> float:
        return float(np.broadcast_to(values, evaluation.k.shape)[row, 0])

    rows = []
    for name, (operator, formula) in FORMULAS.items():
        step, draft, whole_round = (at(time[name]) for time in (evaluation.baseline, evaluation.draft, evaluation.round))
        if not (step or whole_round):
            continue
        rows.append(
            ComponentRow(
                name, step, draft if k else 0.0, whole_round - draft if k else step, sigmas[name], formula,
                _source(deployment, operator),
            )
        )  # fmt: skip
    return tuple(rows)


def _source(deployment: Deployment, operator: str) -> str:
    """State and origin of the parameters behind ``operator``."""
    if not operator:
        serving = deployment.serving
        values = ", ".join(
            f"{name} {getattr(serving, name) * 1e3:g} ms ({serving.facts[name].state})"
            for name in HOST_FACTS
            if name in serving.facts
        )
        hidden = "hidden behind the GPU" if serving.host_overlap else "not hidden"
        return f"{serving.id} {serving.version}: {values}; host_s is {hidden}; sources: profiles/engines/{serving.id}.toml"
    model = deployment.model
    kinds = {la.mixer.kind for la in model.layers if isinstance(la.mixer, Attention)}
    operator = "mla" if operator == "attention" and "mla" in kinds else operator
    weight = operator in ("gemm", "moe")
    name = model.weight_format if weight else deployment.kv_format if operator in ("attention", "mla") else "any"
    entry = find_entry(deployment.gpu, operator, name, deployment.serving.id)
    origin = "your calibration" if entry.origin == USER else entry.provenance.get("source", "")
    parameters = ", ".join(f"{key} {value:.3g}" for key, value in entry.parameters.items())
    return f"{entry.state}{': ' + str(origin) if origin else ''}; {parameters}"
