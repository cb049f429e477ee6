"""What the fakes share: the true results in numpy, an invented clock, and a record of the arguments that were passed.

``planted`` names the defects that a test switches on. Every time is the bytes read over ``BYTES_PER_S`` plus ``FLOOR_S``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

FLOOR_S, BYTES_PER_S = 5e-6, 3.6e10
passed: dict[str, set[str]] = {}
planted: set[str] = set()


def public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Record which parameters of a fake public function are given. ``raises <name>`` is a defect that any of them can have."""
    name = f"{function.__module__}:{function.__qualname__}"

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        given = set(inspect.signature(function).bind(*args, **kwargs).arguments) - {"self"}
        passed.setdefault(name, set()).update(given)
        if f"raises {function.__name__}" in planted:
            raise RuntimeError(f"no kernel image is available for {function.__name__}")
        return function(*args, **kwargs)

    return recorded


def launch(result: Callable[[], torch.Tensor], bytes_read: float) -> torch.Tensor:
    """Run now, or put the time into the graph that is being captured."""
    if torch.cuda.captured(FLOOR_S + bytes_read / BYTES_PER_S):
        return torch.empty((0,), dtype=torch.bfloat16, device="cuda")
    return result()


def attention(
    q: Any, k: Any, v: Any, lengths: Any, table: Any = None, *, scale: float, seen: Any = None, heads_first: bool = False
) -> torch.Tensor:
    """softmax(scale q k^T) v, causal from the last key; q [batch * tokens, heads, dim], caches as the operands have them."""
    lengths = np.asarray(lengths)
    batch = len(lengths)
    read = int(lengths.sum()) * k.shape[-3 if heads_first else -2] * k.shape[-1] * (k.dtype.size + v.dtype.size)

    def compute() -> torch.Tensor:
        keys, values = (_pages(x, table, heads_first) for x in (k, v))
        queries = q.values.reshape(batch, -1, *q.shape[-2:])
        tokens, heads, dim = queries.shape[1:]
        group = heads // keys.shape[2]
        out = np.empty_like(queries)
        factor = scale * 1.1 if "scale" in planted else scale
        for b, h in np.ndindex(batch, heads):
            n = int(lengths[b])
            visible = np.tri(tokens, n, n - tokens, dtype=bool)
            if seen is not None:
                visible[:, n - tokens :] = seen
            if "non-causal" in planted:
                visible[:] = True
            score = np.where(visible, factor * (queries[b, :, h] @ keys[b, :n, h // group].T), -np.inf)
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            out[b, :, h] = weight / weight.sum(axis=1, keepdims=True) @ values[b, :n, h // group]
        return torch.Tensor(out.reshape(-1, heads, dim), torch.bfloat16)

    return launch(compute, read)


def _pages(cache: torch.Tensor, table: Any, heads_first: bool) -> Any:
    values = cache.values.swapaxes(1, 2) if heads_first else cache.values
    if table is None:
        return values
    order = np.asarray(table)
    order = order[:, ::-1] if "page order" in planted else order
    return values[order].reshape(len(order), -1, *values.shape[2:])


def product(x: torch.Tensor, packed: Any, scales: Any, group: int) -> torch.Tensor:
    """x times a 4-bit weight less 8 in GPTQ's layout [k / 8, n] with scales [k / group, n]."""
    words, factors = packed.values.astype(np.int64), scales.values

    def compute() -> torch.Tensor:
        nibbles = (words[:, None, :] >> (4 * np.arange(8))[:, None]) & 15
        weight = nibbles.reshape(-1, words.shape[1]) - (7.0 if "zero point" in planted else 8.0)
        return torch.Tensor(x.values @ (weight * np.repeat(factors, group, axis=0)), torch.bfloat16)

    return launch(compute, words.size * 4 + factors.size * 2)


def mixture(x: torch.Tensor, w1: Any, w2: Any, weights: Any, ids: Any) -> torch.Tensor:
    """Sum over the chosen experts of weight * down(silu(gate x) * up x)."""
    chosen = len(np.unique(ids.values))
    read = chosen * 2.0 * (math.prod(w1.shape[1:]) + math.prod(w2.shape[1:]))

    def compute() -> torch.Tensor:
        out = np.zeros_like(x.values)
        share = weights.values
        if "normalised weights" in planted:
            share = share / share.sum(axis=1, keepdims=True)
        for token, slot in np.ndindex(*ids.shape):
            expert = int(ids.values[token, slot])
            halves = np.split(w1.values[expert] @ x.values[token], 2)
            gate, up = halves[::-1] if "up before gate" in planted else halves
            out[token] += share[token, slot] * (w2.values[expert] @ (gate / (1 + np.exp(-gate)) * up))
        return torch.Tensor(out, torch.bfloat16)

    return launch(compute, read)
