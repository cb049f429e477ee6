"""Where a kernel law gets its numbers from: the profile of the GPU, by operator, format and engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from specadvisor.errors import InputError
from specadvisor.formats import KV_BYTES, weight_format
from specadvisor.hardware import Gpu, load_gpu
from specadvisor.hardware.kernel_profile import ANY, KernelEntry, KernelProfile, load_kernel_profile
from specadvisor.ids import resolve
from specadvisor.ranges import FloatArray

WEIGHT_OPERATORS = ("gemm", "moe")
CACHE_OPERATORS = ("attention", "mla")


def as_gpu(gpu: str | Gpu) -> Gpu:
    """The GPU itself, or the shipped one with this id."""
    if isinstance(gpu, str):
        return _load(gpu)
    if not isinstance(gpu, Gpu):
        raise InputError("gpu", gpu, "an id of `specadvisor gpus` or a Gpu")
    return gpu


def find_entry(gpu: str | Gpu, operator: str, format: str, engine: str, kernel: str = "") -> KernelEntry:
    """The entry that the law of ``operator`` uses for this weight or cache format and engine."""
    return _profile(as_gpu(gpu)).find(operator, format_family(operator, format), _engine(engine), kernel)


def error_band(gpu: str | Gpu, operator: str, format: str = ANY, engine: str = "vllm") -> tuple[float, float, str]:
    """(median, 90th percentile, state): absolute relative error of this operator's time on shapes it was not fitted to."""
    entry = find_entry(gpu, operator, format, engine)
    return entry.median_error, entry.p90_error, entry.state


def format_family(operator: str, format: str) -> str:
    """The format under which parameters are kept: kernel family of a weight format, ``bf16`` or ``fp8`` of a cache."""
    if operator in WEIGHT_OPERATORS:
        return weight_format(format).kernel
    return cache_family(format) if operator in CACHE_OPERATORS else ANY


def cache_family(kv_format: str) -> str:
    """16-bit caches share ``bf16``, every smaller one shares ``fp8``."""
    return "bf16" if cache_bytes(kv_format) >= 2.0 else "fp8"


def cache_bytes(kv_format: str) -> float:
    """Bytes per cached element."""
    return KV_BYTES[kv_format] if kv_format in KV_BYTES else KV_BYTES[resolve("KV format", kv_format)]


def floor_s(p: Mapping[str, float], floor_scale: float) -> float:
    """Seconds before an operator does any work; inside a whole-model graph only ``floor_scale`` of its launch part is left."""
    return p["t0_s"] * (1.0 - p.get("launch", 1.0) * (1.0 - floor_scale))


def positive(name: str, value: Any) -> FloatArray:
    """``value`` as a float64 array; raises ``InputError`` where it is not a finite number above zero."""
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise InputError(name, value, "a number or an array of numbers") from error
    if given.dtype.kind not in "iuf":
        raise InputError(name, value, "a number or an array of numbers")
    array = given.astype(np.float64)
    if array.size and not array.min() > 0:
        raise InputError(name, float(array.min()), "numbers above 0")
    if array.size and not array.max() < np.inf:
        raise InputError(name, float(array.max()), "finite numbers")
    return array


_load = cache(load_gpu)
_engine = cache(lambda engine: engine if engine in (ANY, "nccl") else resolve("engine", engine))


def _profile(gpu: Gpu) -> KernelProfile:
    """A GPU built by hand carries no profile: it gets the one of its id and compute capability, read once."""
    if gpu.kernels:
        return gpu.kernels
    key = (gpu.id, gpu.sm)
    if key not in _profiles:
        _profiles[key] = load_kernel_profile(gpu)
    return _profiles[key]


_profiles: dict[tuple[str, int], KernelProfile] = {}
