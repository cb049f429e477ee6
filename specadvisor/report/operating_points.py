"""Where the main operators of a verification stand on the roofline as k grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specadvisor.advise.point import Point
from specadvisor.advise.recommendation import Curve, Recommendation
from specadvisor.formats import weight_format
from specadvisor.kernels import distinct_experts
from specadvisor.kernels.roofline import attention_intensity, gemm_intensity, mla_intensity
from specadvisor.model.architecture import Attention, Moe
from specadvisor.ranges import FloatArray


@dataclass(frozen=True)
class Operating:
    """One operator along k: FLOP per byte and the FLOP/s that its predicted time means, on one GPU."""

    operator: str
    k: FloatArray
    intensity: FloatArray
    flop_per_s: FloatArray


def operating_points(rec: Recommendation, curve: Curve, concurrency: int) -> list[Operating]:
    """Matrices, experts and attention of the target's pass at ``concurrency``, k = 0 first."""
    column = rec.load.concurrency.index(concurrency)
    at = Point(curve.evaluation, column, 0)
    deployment = rec.deployment
    model, tp = deployment.model, deployment.tp
    ks = np.concatenate(([0], at.ks)).astype(float)
    query = np.concatenate(([1.0], at.verified))
    batch = np.concatenate(([at.base_batch], at.batch))
    rows = batch * query

    def seconds(name: str) -> FloatArray:
        verify = at.round.get(name, np.zeros(1)) - at.draft.get(name, 0.0)
        return np.concatenate(([at.base.get(name, 0.0)], np.broadcast_to(verify, at.ks.shape)))

    found: list[Operating] = []
    dense = sum(la.count * sum(m.parameters * m.share(tp) for m in la.linears) for la in model.layers)
    largest = max((m for la in model.layers for m in la.linears), key=lambda m: m.parameters)
    n_out, k_in = largest.on_rank(tp)
    found.append(
        Operating("matrices", ks, gemm_intensity(rows, n_out, k_in, largest.format), _rate(2 * dense * rows, seconds("gemm")))
    )
    experts = [(la.count, la.feed_forward) for la in model.layers if isinstance(la.feed_forward, Moe)]
    if experts and seconds("moe").any():
        flops = sum(n * part.top_k * part.expert_parameters for n, part in experts) * 2 * rows / max(tp, deployment.ep)
        part = experts[0][1]
        per_expert = rows * part.top_k / distinct_experts(rows, part.experts, part.top_k)
        intensity = 2.0 * per_expert / weight_format(part.format).bytes_per_weight
        found.append(Operating("experts", ks, intensity, _rate(flops, seconds("moe"))))
    attention = [(la.count, la.mixer) for la in model.layers if isinstance(la.mixer, Attention)]
    if attention and seconds("attention").any():
        flops = np.zeros_like(rows)
        for count, mixer in attention:
            keys = mixer.keys_read(at.context)
            flops = flops + count * 2.0 * mixer.heads_on_rank(tp) * (mixer.key_dim + mixer.value_dim) * keys * rows
        mixer = max(attention, key=lambda item: (not item[1].window, item[0]))[1]
        law = mla_intensity if mixer.kind == "mla" else attention_intensity
        intensity = np.asarray(law(mixer.group_size(tp), query, deployment.kv_format), dtype=float)
        found.append(Operating("attention", ks, intensity, _rate(flops, seconds("attention"))))
    return found


def _rate(flops: FloatArray, seconds: FloatArray) -> FloatArray:
    return np.divide(flops, seconds, out=np.zeros_like(flops), where=seconds > 0)
