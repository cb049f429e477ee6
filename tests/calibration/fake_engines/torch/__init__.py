"""The part of torch that the calibration calls, on numpy arrays that are rounded to the dtype they claim.

Its clock is invented: without a test runner or a stand-in driver it refuses to be imported.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from specadvisor.calibration import driver, reference

if "pytest" not in sys.modules and not driver.is_stand_in():
    raise ImportError("this torch is a test's fake")


class dtype(NamedTuple):
    name: str
    size: int
    kind: Any


float32 = dtype("float32", 4, np.float32)
bfloat16 = dtype("bfloat16", 2, np.float32)
float8_e4m3fn = dtype("float8_e4m3fn", 1, np.float32)
int32 = dtype("int32", 4, np.int32)
uint8 = dtype("uint8", 1, np.uint8)
uint16 = dtype("uint16", 2, np.uint16)
_OF_NUMPY = {np.dtype(d.kind): d for d in (float32, int32, uint8, uint16)}
_E4M3 = np.unique(reference.E4M3[np.isfinite(reference.E4M3)])


class device(NamedTuple):
    type: str
    index: int = 0


class Tensor:
    def __init__(self, values: Any, kind: dtype) -> None:
        values = np.asarray(values, kind.kind)
        if kind is bfloat16:
            values = reference.from_bf16(reference.to_bf16(values)).astype(np.float32)
        if kind is float8_e4m3fn:
            above = np.clip(np.searchsorted(_E4M3, values), 1, len(_E4M3) - 1)
            low, high = _E4M3[above - 1], _E4M3[above]
            values = np.where(values - low < high - values, low, high).astype(np.float32)
        self.values, self.dtype = values, kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def _same(self, values: Any) -> Tensor:
        found = object.__new__(Tensor)
        found.values, found.dtype = values, self.dtype
        return found

    def to(self, target: Any) -> Tensor:
        return Tensor(self.values, target) if isinstance(target, dtype) else self

    def float(self) -> Tensor:
        return Tensor(self.values, float32)

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        if self.dtype in (bfloat16, float8_e4m3fn):
            raise TypeError(f"numpy has no {self.dtype.name}")
        return self.values

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.values, *args, **kwargs)

    def view(self, *shape: int) -> Tensor:
        if not self.values.flags.c_contiguous:
            raise RuntimeError("view size is not compatible with input tensor's size and stride")
        return self._same(self.values.reshape(shape))

    def reshape(self, *shape: int) -> Tensor:
        return self._same(self.values.reshape(shape))

    def transpose(self, a: int, b: int) -> Tensor:
        return self._same(self.values.swapaxes(a, b))

    def t(self) -> Tensor:
        return self.transpose(0, 1)

    def contiguous(self) -> Tensor:
        return self._same(np.ascontiguousarray(self.values))

    def clone(self) -> Tensor:
        return self._same(self.values.copy())

    def copy_(self, other: Tensor) -> Tensor:
        self.values[...] = other.values
        return self

    def __mul__(self, factor: float) -> Tensor:
        return Tensor(self.values * factor, self.dtype)

    def __add__(self, term: float) -> Tensor:
        return Tensor(self.values + term, self.dtype)


_random = np.random.default_rng(1)


def randn(size: tuple[int, ...], *, dtype: dtype, device: str) -> Tensor:
    return Tensor(_random.standard_normal(size, np.float32), dtype)


def rand(size: tuple[int, ...], *, dtype: dtype, device: str) -> Tensor:
    return Tensor(_random.random(size, np.float32), dtype)


def randint(low: int, high: int, size: tuple[int, ...], *, dtype: dtype, device: str) -> Tensor:
    return Tensor(_random.integers(low, high, size), dtype)


def zeros(size: Any, *, dtype: dtype, device: str) -> Tensor:
    return Tensor(np.zeros(size, dtype.kind), dtype)


def ones(size: Any, *, dtype: dtype, device: str) -> Tensor:
    return Tensor(np.ones(size, dtype.kind), dtype)


empty = zeros


def from_numpy(values: Any) -> Tensor:
    return Tensor(values, _OF_NUMPY[values.dtype])


def softmax(x: Tensor, dim: int) -> Tensor:
    powers = np.exp(x.values - x.values.max(axis=dim, keepdims=True))
    return Tensor(powers / powers.sum(axis=dim, keepdims=True), x.dtype)


def topk(x: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    order = np.argsort(-x.values, axis=dim)[..., :k]
    return Tensor(np.take_along_axis(x.values, order, dim), x.dtype), Tensor(order, int32)


from torch import cuda, distributed, multiprocessing, nn  # noqa: E402, F401
