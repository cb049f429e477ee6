"""Mixture-of-experts feed-forward: routing to un-permute on one rank, without communication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.formats import weight_format
from specadvisor.hardware import Gpu
from specadvisor.kernels.gemm import norm_sum
from specadvisor.kernels.parameters import as_gpu, find_entry, floor_s, positive
from specadvisor.kernels.routing import active_experts, check_choice
from specadvisor.ranges import FloatArray

PADDED_ROWS = 16.0


class MoeTerms(NamedTuple):
    """Seconds at datasheet speed: expert weights, activations in and out, products of the rows."""

    memory_s: FloatArray
    compute_s: FloatArray
    padding: FloatArray
    activation_s: FloatArray
    local_experts: FloatArray
    depth: FloatArray


def moe_s(
    gpu: str | Gpu,
    tokens: Any,
    hidden: float,
    intermediate: float,
    experts: int,
    top_k: int,
    weight_format: str = "bf16",
    tp: int = 1,
    ep: int = 1,
    routing: str | float = "uniform",
    engine: str = "vllm",
    *,
    matrices: float = 3,
    floor_scale: float = 1.0,
    kernel: str = "",
) -> FloatArray:
    """Seconds of one MoE layer on one rank (``moe_law``); ``tokens`` enter the layer, counted over all ranks.

    ``routing``: ``uniform`` (independent choices), ``balanced`` (no two tokens share an expert before all are in use), or a
    Zipf exponent of expert popularity (``power_law`` is 1.0). ``tp`` splits ``intermediate``, ``ep`` the experts.
    ``matrices``: 3 gated, 2 plain. ``kernel`` picks one of an engine's several kernels by its name in the profile.
    """
    gpu = as_gpu(gpu)
    check_choice(experts, top_k)
    entry = find_entry(gpu, "moe", weight_format, engine, kernel)
    tokens = positive("tokens", tokens)
    active = active_experts(tokens, experts, top_k, routing)
    rows = tokens * top_k
    padded = padded_rows(rows, active)
    width, inner = positive("hidden", hidden), positive("intermediate", intermediate) / positive("tp", tp)
    ranks = positive("ep", ep)
    terms = moe_terms(gpu, active / ranks, rows / ranks, padded / ranks, experts / ranks, width, inner, weight_format, matrices)
    return moe_law(entry.parameters, terms, floor_scale)


def padded_rows(rows: FloatArray, active: FloatArray) -> FloatArray:
    """Rows after every expert's share is rounded up to 16, the smallest tile of grouped GEMMs."""
    return np.asarray(active * np.ceil(rows / active / PADDED_ROWS - 1e-9) * PADDED_ROWS)


def moe_terms(
    gpu: Gpu,
    active: FloatArray,
    rows: FloatArray,
    padded: FloatArray,
    local_experts: Any,
    hidden: Any,
    inner: Any,
    format: str,
    matrices: Any = 3,
) -> MoeTerms:
    """Datasheet times of one rank::

    memory     = active matrices hidden inner w / bandwidth         compute = 2 rows matrices hidden inner / peak
    activation = rows (4 hidden + matrices inner) 2 / bandwidth     rows: (token, expert) pairs
        padding    = padded rows / rows
    """
    fmt = weight_format(format)
    weights = matrices * hidden * inner
    return MoeTerms(
        memory_s=active * weights * fmt.bytes_per_weight / gpu.memory_bytes_per_s,
        compute_s=2.0 * rows * weights / gpu.peak(fmt.compute),
        padding=padded / rows,
        activation_s=rows * (4.0 * hidden + matrices * inner) * 2.0 / gpu.memory_bytes_per_s,
        local_experts=np.asarray(local_experts, dtype=np.float64),
        depth=(hidden + inner) / 1024.0,
    )


def moe_law(p: Mapping[str, float], terms: MoeTerms, floor_scale: float = 1.0) -> FloatArray:
    """One rank's experts from their datasheet times::

        T = t0 + te experts + tk (hidden + inner)/1024 + activation/ea
              + ((memory/em)^norm + (compute padding^step / ec)^norm)^(1/norm)

    ``te_s`` per expert on the rank (sorting, empty groups), ``tk_s`` the serial walk along both products, ``step`` how much of
    the row padding is paid.
    """
    compute = terms.compute_s * terms.padding ** p["step"] / p["ec"]
    busy = norm_sum(terms.memory_s / p["em"], compute, p["norm"])
    fixed = floor_s(p, floor_scale) + p["te_s"] * terms.local_experts + p["tk_s"] * terms.depth
    return fixed + terms.activation_s / p["ea"] + busy
