"""Recurrent token mixers (gated delta net, KDA, Mamba): one layer's state update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, find_entry, floor_s, positive
from specadvisor.ranges import FloatArray


class RecurrentTerms(NamedTuple):
    """State traffic in seconds at full bandwidth, and the number of sequential tokens."""

    memory_s: FloatArray
    steps: FloatArray


def recurrent_s(
    gpu: str | Gpu, batch: Any, query_tokens: Any, state_bytes: Any, engine: str = "vllm", *, floor_scale: float = 1.0
) -> FloatArray:
    """Seconds of one layer (``recurrent_law``); ``state_bytes`` per sequence and layer on the rank, arrays broadcast."""
    gpu = as_gpu(gpu)
    entry = find_entry(gpu, "recurrent", "any", engine)
    shape = positive("batch", batch), positive("query_tokens", query_tokens), positive("state_bytes", state_bytes)
    return recurrent_law(entry.parameters, recurrent_terms(gpu, *shape), floor_scale)


def recurrent_terms(gpu: Gpu, batch: FloatArray, query: FloatArray, state_bytes: FloatArray) -> RecurrentTerms:
    """One state is read and one written per query token (a rejected draft rolls back to any of them): 1 + query states."""
    return RecurrentTerms(batch * state_bytes * (1.0 + query) / gpu.memory_bytes_per_s, query)


def recurrent_law(p: Mapping[str, float], terms: RecurrentTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + ts query + memory / em``: linear in the query tokens, no free region."""
    return floor_s(p, floor_scale) + p["ts_s"] * terms.steps + terms.memory_s / p["em"]
