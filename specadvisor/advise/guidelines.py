"""The five guidelines with this case's numbers: they explain the choice of k, they do not make it.

NVIDIA, "Co-Designing AI Models Using Speculative Decoding for Faster LLM Inference" (2026-09-02), with the tile rule of
the attention kernel that actually runs beside its 128/G - 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.advise.binding import binding_guideline
from specadvisor.advise.evaluate import Evaluation
from specadvisor.advise.point import Point
from specadvisor.kernels import distinct_experts
from specadvisor.kernels.roofline import attention_intensity, gemm_intensity, k_g1, k_g2, mla_intensity, ridge_rows
from specadvisor.model.architecture import Attention, Moe
from specadvisor.ranges import FloatArray
from specadvisor.step import Deployment, resident

if TYPE_CHECKING:
    from specadvisor.acceptance import Survival
    from specadvisor.drafters import Drafter

TITLES = {
    1: "GEMMs up to the ridge, without pressing on the KV cache",
    2: "fill one attention tile",
    3: "beyond one tile, align to the next",
    4: "draft only while the gain is worth the time",
    5: "choose the drafter by what it accepts and costs",
}
NVIDIA_TILE = 128
MATRICES = ("gemm", "moe", "head")
# Growth of the matrices with the rows of a verification that still counts as memory-bound.
FREE_GROWTH = 0.10
# Nearer to the ridge than this the roofline itself bends: growth there says nothing about the kernels.
NEAR_RIDGE = 0.5


@dataclass(frozen=True, slots=True)
class Guideline:
    """One guideline: its number, the k it suggests (None: it suggests none), its numbers and one sentence."""

    number: int
    k: int | None
    says: str
    numbers: Mapping[str, Any]

    @property
    def title(self) -> str:
        return TITLES[self.number]


@dataclass(frozen=True, slots=True)
class GuidelineTrace:
    """The guidelines at one load for one drafter run at ``k``.

    ``binding`` is the number of the one that ends k there, 0 where the next draft token would still pay.
    """

    concurrency: int
    drafter: str
    k: int
    guidelines: tuple[Guideline, ...]
    binding: int
    because: str


def trace(
    deployment: Deployment, drafter: Drafter, survival: Survival, evaluation: Evaluation, column: int, k: int
) -> GuidelineTrace:
    """Guidelines at one concurrency (``column`` of an evaluation over (k, concurrency)) when ``k`` drafts are run."""
    at = Point(evaluation, column, k)
    drafter = drafter.on(deployment)
    listed = (
        _first(deployment, drafter, at),
        *_tiles(deployment, at),
        _fourth(survival, at),
        _fifth(drafter, survival, at),
    )
    binding, because = binding_guideline(at)
    return GuidelineTrace(int(at.concurrency), drafter.name, k, listed, binding, because)


def _first(deployment: Deployment, drafter: Drafter, at: Point) -> Guideline:
    model, gpu = deployment.model, deployment.gpu
    largest = max((m for la in model.layers for m in la.linears), key=lambda m: m.parameters)
    ridge = ridge_rows(gpu, largest.format)
    rows = at.running * at.query_tokens
    n_out, k_in = largest.on_rank(deployment.tp)
    intensity = float(gemm_intensity(rows, n_out, k_in, largest.format))
    plain, loaded = resident(deployment), resident(deployment, drafter)
    limit = int(k_g1(ridge, at.running))
    numbers: dict[str, Any] = {
        "ridge_rows": ridge,
        "batch": at.running,
        "rows": rows,
        "gemm_flop_per_byte": intensity,
        "k_g1": limit,
        "kv_pool_tokens_without_drafter": plain.kv_pool_tokens,
        "kv_pool_tokens": loaded.kv_pool_tokens,
        "batch_without_drafter": at.base_batch,
    }
    experts = next((la.feed_forward for la in model.layers if isinstance(la.feed_forward, Moe)), None)
    side = "below" if rows < ridge else "above"
    says = f"{rows:.0f} rows a GEMM are {side} the ridge of {ridge:.0f}"
    growth, after = _matrix_growth(at)
    numbers["matrix_growth"] = growth
    if experts:
        read, before = (float(distinct_experts(np.asarray(n), experts.experts, experts.top_k)) for n in (rows, at.running))
        numbers |= {"rows_per_expert": rows * experts.top_k / experts.experts, "distinct_experts": read}
        numbers["distinct_experts_step"] = before
        says += f"; {read:.0f} of {experts.experts} experts are read, {rows * experts.top_k / read:.1f} rows each"
    says += ": "
    if rows < NEAR_RIDGE * ridge and growth > FREE_GROWTH:
        limit = _free_k(at)
        numbers["k_free"] = limit
        says += f"by the roofline free to k = {numbers['k_g1']}, but "
        if experts:
            says += f"a step without drafts reads {before:.0f}, so experts and matrices take {growth:+.0%} at k = {after}"
        else:
            says += f"the {largest.format} kernels here take {growth:+.0%} at k = {after} (they unpack or tile per row)"
        says += f"; within {FREE_GROWTH:.0%} up to k = {limit}"
    else:
        says += f"up to k = {limit} the matrices stay memory-bound"
    if at.running < at.base_batch:
        says += f"; the KV pool with this drafter runs {at.running:.0f} requests instead of {at.base_batch:.0f}"
    return Guideline(1, limit, says, numbers)


def _matrices(at: Point) -> FloatArray:
    """Seconds of the target's matrices, experts and head in a verification, along k."""
    return np.asarray(sum(at.round.get(n, 0.0) - at.draft.get(n, 0.0) for n in MATRICES) + np.zeros(at.ks.size))


def _plain_matrices(at: Point) -> float:
    """The same seconds in a plain step."""
    return sum(at.base.get(name, 0.0) for name in MATRICES)


def _matrix_growth(at: Point) -> tuple[float, int]:
    """(by how much the matrices take longer than in a plain step, relative, at which k): the k chosen, the first where it
    is 0.
    """
    base, row = _plain_matrices(at), at.index or 0
    return (float(_matrices(at)[row] / base - 1.0) if base else 0.0), int(at.ks[row])


def _free_k(at: Point) -> int:
    """Largest k up to which the matrices take at most ``FREE_GROWTH`` longer than in a plain step; 0 for none."""
    base = _plain_matrices(at)
    beyond = np.flatnonzero(_matrices(at) > (1.0 + FREE_GROWTH) * base)
    return int(at.ks[-1]) if not beyond.size else 0 if beyond[0] == 0 else int(at.ks[beyond[0] - 1])


def _tiles(deployment: Deployment, at: Point) -> tuple[Guideline, Guideline]:
    """Guidelines 2 and 3 on the attention layer that most layers have."""
    layers = [(la.count, la.mixer) for la in deployment.model.layers if isinstance(la.mixer, Attention)]
    share = at.base.get("attention", 0.0) / at.base_s
    state = at.base.get("recurrent", 0.0) / at.base_s
    if not layers:
        says = f"no attention layers; the recurrent state takes {state:.0%} of a step and has no free rows"
        numbers = {"attention_share": 0.0, "state_share": state}
        return Guideline(2, None, says, numbers), Guideline(3, None, "no attention tiles", {})
    mixer = max(layers, key=lambda item: (not item[1].window, item[0]))[1]
    group = mixer.group_size(deployment.tp)
    backend = deployment.serving.attention_backend(
        deployment.gpu, mixer.key_dim, mla=mixer.kind == "mla", sparse=bool(mixer.top_k)
    )
    free = 0 if mixer.top_k else backend.free_draft_length(group)
    nvidia = int(k_g2(group, NVIDIA_TILE))
    query = at.query_tokens
    intensity = mla_intensity if mixer.kind == "mla" else attention_intensity
    second = {
        "attention_share": share,
        "state_share": state,
        "group_size": group,
        "attention_flop_per_byte": float(intensity(group, query, deployment.kv_format)),
        "k_128_over_g": nvidia,
        "backend": backend.name,
        "tile_rows": backend.max_tile_rows(group),
        "k_g2": free,
    }
    says = f"attention takes {share:.0%} of a step; 128/G - 1 = {nvidia} with G = {group:g}, {backend.name}: k = {free}"
    if mixer.top_k:
        says += "; sparse attention reads its keys once per query token, no rows are free"
    if state > 0:
        says += f"; recurrent state {state:.0%}, which grows with every draft token"
    if not backend.packs and group > 1:
        passes = float(np.asarray(backend.tiles(2.0, group)))
        says += "; with a draft token each query head reads the cache itself"
        third_says = f"does not apply: {passes:.0f} passes over the cache from the first draft token on, no tile to fill"
        third: dict[str, Any] = {"rows": group * query, "tiles": passes, "tile_waste": None, "next_aligned_k": None}
        return Guideline(2, free, says, second), Guideline(3, None, third_says, third)
    tiles = float(np.asarray(backend.tiles(query, group)))
    waste = float(np.asarray(backend.waste(query, group)))
    aligned = backend.aligned_draft_lengths(group, 4 * NVIDIA_TILE)
    after = next((length for length in aligned if length > at.k), None)
    third = {"rows": group * query, "tiles": tiles, "tile_waste": waste, "next_aligned_k": after}
    beside = f"the next aligned k is {after}" if after is not None else "there is no aligned k"
    third_says = (
        f"{group * query:.0f} rows in {tiles:.0f} tile pass{'es' if tiles != 1 else ''}, {waste:.0%} of it empty; {beside}"
    )
    return Guideline(2, free, says, second), Guideline(3, after if at.k > free else None, third_says, third)


def _fourth(survival: Survival, at: Point) -> Guideline:
    """s_{k+1} / AL(k) against (T(k+1) - T(k)) / T(k), for every step of the grid from k = 0."""
    gain = np.diff(at.lengths) / at.lengths[:-1]
    cost = np.diff(at.times_s) / at.times_s[:-1]
    losing = np.flatnonzero(gain <= cost)
    ends = int(np.concatenate(([0], at.ks))[losing[0]]) if losing.size else int(at.ks[-1])
    rho = float(at.draft_s[0] / at.base_s / at.ks[0])
    rows = [
        {"k": int(k), "marginal_gain": float(g), "marginal_cost": float(c)} for k, g, c in zip(at.ks, gain, cost, strict=True)
    ]
    says = f"one more draft token first costs more than it brings after k = {ends}" if losing.size else "every draft token pays"
    says += f"; drafting one costs {rho:.1%} of a step"
    return Guideline(4, ends, says, {"draft_step_share": rho, "steps": rows})


def _fifth(drafter: Drafter, survival: Survival, at: Point) -> Guideline:
    i = at.index if at.index is not None else 0
    overhead = float(at.draft_s[i] / at.round_s[i])
    facts = drafter.facts
    numbers = {
        "k": int(at.ks[i]),
        "acceptance_length": float(at.length[i]),
        "first_position_acceptance": float(survival.s[0]),
        "acceptance_source": survival.source,
        "draft_share": overhead,
        "memory_bytes": drafter.resident_bytes,
        "kv_bytes_per_token": drafter.kv_bytes_per_token,
        "training": facts.training_class,
        "operating": facts.operating,
    }
    says = (
        f"{drafter.name} at k = {at.ks[i]}: AL {at.length[i]:.2f}, drafting {overhead:.0%} of the round, "
        f"{drafter.resident_bytes / 1e9:.2f} GB; training: {facts.training_class}; {facts.operating}"
    )
    return Guideline(5, None, says, numbers)
