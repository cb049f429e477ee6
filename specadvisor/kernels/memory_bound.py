"""Passes that only move bytes: norms, activations, quantisation, softmax and sampling."""

from __future__ import annotations

from typing import Any

from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, find_entry
from specadvisor.ranges import FloatArray


def memory_pass_s(gpu: str | Gpu, bytes: Any, *, floor_scale: float = 1.0) -> FloatArray:
    """Seconds to move ``bytes`` (read plus written) in one kernel: ``t0 + bytes / (em bandwidth)``."""
    gpu = as_gpu(gpu)
    p = find_entry(gpu, "memory", "any", "any").parameters
    return floor_scale * p["t0_s"] + bytes / (gpu.memory_bytes_per_s * p["em"])
