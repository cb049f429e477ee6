"""Host side of the correctness checks: number formats and float64 references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.ranges import FloatArray

BITS_BF16_NAN = 0x7FC0
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float64)


def to_bf16(x: NDArray[Any]) -> NDArray[np.uint16]:
    """Bits of the nearest bf16 (ties to even)."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> FloatArray:
    """Values of bf16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _e4m3_table() -> FloatArray:
    """Value of each E4M3 byte (exponent bias 7, no infinities; 0x7f and 0xff are NaN)."""
    byte = np.arange(256)
    exponent, mantissa = (byte >> 3) & 15, byte & 7
    value = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    value = np.where(byte & 128, -value, value)
    value[[0x7F, 0xFF]] = np.nan
    return value


E4M3 = _e4m3_table()


def from_e4m3(byte: NDArray[np.uint8]) -> FloatArray:
    """Values of E4M3 bytes."""
    return E4M3[byte]


def from_e2m1(byte: NDArray[np.uint8]) -> FloatArray:
    """Two values a byte, low nibble first: the last axis doubles."""
    nibbles = np.stack([byte & 15, byte >> 4], axis=-1).reshape(*byte.shape[:-1], -1)
    return np.where(nibbles & 8, -1.0, 1.0) * _E2M1[nibbles & 7]


def attention(q: FloatArray, k: FloatArray, v: FloatArray, lengths: NDArray[Any]) -> FloatArray:
    """float64 attention, causal from the bottom right: query token i of Lq sees keys up to ``length - Lq + i``.

    q [batch, Lq, heads, dim], k and v [batch, capacity, kv_heads, dim] -> [batch, Lq, heads, dim]
    """
    batch, tokens, heads, dim = q.shape
    group = heads // k.shape[2]
    out = np.zeros(q.shape)
    for b in range(batch):
        length = int(lengths[b])
        hidden = np.arange(length)[None, :] > (length - tokens + np.arange(tokens))[:, None]
        for h in range(heads):
            score = q[b, :, h] @ k[b, :length, h // group].T / math.sqrt(dim)
            score[hidden] = -np.inf
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            out[b, :, h] = (weight / weight.sum(axis=1, keepdims=True)) @ v[b, :length, h // group]
    return out


def relative_error(got: FloatArray, want: FloatArray) -> float:
    """Norm of the difference over the norm of the reference; infinite where anything is not finite."""
    if not np.isfinite(got).all():
        return math.inf
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))
