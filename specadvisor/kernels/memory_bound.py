"""Passes that only move bytes: norms, activations, quantisation, softmax and sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, find_entry, floor_s, positive
from specadvisor.ranges import FloatArray


class MemoryTerms(NamedTuple):
    """Seconds at datasheet bandwidth."""

    memory_s: FloatArray


def memory_pass_s(gpu: str | Gpu, bytes: Any, *, floor_scale: float = 1.0) -> FloatArray:
    """Seconds to move ``bytes`` (read plus written) in one kernel (``memory_law``)."""
    gpu = as_gpu(gpu)
    entry = find_entry(gpu, "memory", "any", "any")
    return memory_law(entry.parameters, memory_terms(gpu, positive("bytes", bytes)), floor_scale)


def memory_terms(gpu: Gpu, bytes: FloatArray) -> MemoryTerms:
    """bytes / bandwidth."""
    return MemoryTerms(bytes / gpu.memory_bytes_per_s)


def memory_law(p: Mapping[str, float], terms: MemoryTerms, floor_scale: float = 1.0) -> FloatArray:
    """``T = t0 + memory / em``."""
    return floor_s(p, floor_scale) + terms.memory_s / p["em"]
