"""A whole grid as a tidy table: drafter x k x concurrency x context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from specadvisor.advise.anchor import Anchor, Correction, read_anchors
from specadvisor.advise.candidates import Candidates
from specadvisor.advise.evaluate import Baseline, Evaluation, baseline, evaluate
from specadvisor.advise.inputs import (
    DEFAULT_CONCURRENCY,
    DEFAULT_CONTEXT,
    LARGEST_CONCURRENCY,
    LARGEST_TOKENS,
    make_load,
)
from specadvisor.advise.published import at_context
from specadvisor.advise.rank import anchored
from specadvisor.advise.recommendation import NO_DRAFTER
from specadvisor.checks import whole
from specadvisor.drafters import Drafter
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray, Range
from specadvisor.step import Deployment

Axis = int | Sequence[int] | None


def sweep(
    deployment: Deployment,
    found: Candidates,
    k: Axis,
    concurrency: Axis,
    context: Axis,
    input_tokens: int | None,
    output_tokens: int | None,
    anchors: Sequence[str | Anchor] = (),
    executor: Executor | None = None,
) -> pd.DataFrame:
    """One row per point. ``k`` None: every draft length of each drafter; k = 0 (or None) adds rows of plain decoding.

    A k that a drafter cannot propose has no rows for it. Context None: input + output / 2, else 2048. ``executor``
    evaluates the drafters side by side, on other machines if it has them. ``anchors`` correct speed-ups, throughput and TPOT.
    """
    if executor is not None and not callable(getattr(executor, "map", None)):
        raise InputError("executor", executor, "an executor of concurrent.futures or one with its map, or None")
    users = axis("concurrency", concurrency, DEFAULT_CONCURRENCY, 1, LARGEST_CONCURRENCY)
    keys = context_axis(context, input_tokens, output_tokens)
    if input_tokens is not None and keys[0] < input_tokens:
        raise InputError("context", keys[0], f"at least the {input_tokens} input tokens, which every step sees")
    lengths = None if k is None else axis("k", k, (), 0, 1024).astype(int)
    axes = users[None, :, None], keys[None, None, :]
    plain = baseline(deployment, *axes, input_tokens, output_tokens)
    blocks: list[dict[str, Any]] = []
    if lengths is None or 0 in lengths:
        blocks.append(_plain_block(plain, users, keys))
    asked = [(d, _lengths(d, lengths)) for d in found.drafters]
    jobs = [
        partial(
            evaluate, deployment, d, found.survival[d.name], ks[:, None, None], *axes, input_tokens, output_tokens, plain=plain
        )
        for d, ks in asked
        if ks.size
    ]  # fmt: skip
    evaluated = executor.map(_call, jobs) if executor else map(_call, jobs)
    load = make_load(1, input_tokens, output_tokens, None, "mixed", 0.0, "throughput", None, None)
    points = read_anchors(anchors, [d.kind for d in found.drafters])
    for drafter, at in zip((d for d, ks in asked if ks.size), evaluated, strict=True):
        fix = anchored(deployment, drafter, at_context(found.survival[drafter.name], load.context), load, points)
        blocks.append(_block(drafter, at, fix))
    if not blocks:
        raise InputError(
            "k", None if lengths is None else lengths.tolist(), "a number of draft tokens that a drafter here takes"
        )
    names = list(dict.fromkeys(block["drafter"] for block in blocks))
    codes = np.concatenate([np.full(block["size"], names.index(block["drafter"]), dtype=np.int64) for block in blocks])
    table: dict[str, Any] = {"drafter": pd.Categorical.from_codes(codes, categories=pd.Index(names))}
    for column in blocks[0]["columns"]:
        table[column] = np.concatenate([block["columns"][column] for block in blocks])
    return pd.DataFrame(table, copy=False)


def _call(job: Callable[[], Evaluation]) -> Evaluation:
    return job()


def _lengths(drafter: Drafter, asked: Any) -> FloatArray:
    allowed = np.asarray(drafter.allowed_k(), dtype=float)
    return allowed if asked is None else allowed[np.isin(allowed, asked)]


def _block(drafter: Drafter, at: Evaluation, fix: Correction | None) -> dict[str, Any]:
    shape = np.broadcast_shapes(at.k.shape, at.concurrency.shape, at.context.shape)
    throughput, tpot, tok_s, tpot_s = at.throughput_speedup, at.tpot_speedup, at.throughput_tok_s, at.tpot_s
    if fix:
        throughput, tpot = fix.apply(throughput, at.concurrency), fix.apply(tpot, at.concurrency)
        tok_s, tpot_s = at.baseline_throughput_tok_s * throughput.mid / at.gpu_share, at.baseline_tpot_s / tpot.mid
    return _columns(
        drafter.name, shape, at.k, at.concurrency, at.context, at.batch, at.acceptance_length.mid, at.verified_tokens,
        at.draft_s, at.round_s, tok_s, tpot_s, throughput, tpot, at.extra_gpus,
    )  # fmt: skip


def _plain_block(plain: Baseline, users: FloatArray, keys: FloatArray) -> dict[str, Any]:
    shape = (1, users.size, keys.size)
    one = Range(1.0, 1.0, 1.0)
    return _columns(
        NO_DRAFTER, shape, 0.0, users[None, :, None], keys[None, None, :], plain.batch, 1.0, 1.0, 0.0, plain.step.total_s,
        plain.throughput_tok_s, plain.tpot_s, one, one,
    )  # fmt: skip


def _columns(
    name: str, shape: tuple[int, ...], k: Any, users: Any, keys: Any, batch: Any, length: Any, verified: Any,
    draft_s: Any, round_s: Any,
    tok_s: Any, tpot_s: Any, throughput: Any, tpot: Any, extra_gpus: int = 0,
) -> dict[str, Any]:  # fmt: skip
    columns = {
        "k": k, "concurrency": users, "context_tokens": keys, "batch": batch, "acceptance_length": length,
        "verified_tokens_per_sequence": verified, "draft_s": draft_s, "round_s": round_s,
        "throughput_tok_s": tok_s, "tpot_s": tpot_s, "extra_gpus": extra_gpus,
        "throughput_speedup": throughput.mid, "throughput_speedup_low": throughput.low,
        "throughput_speedup_high": throughput.high,
        "tpot_speedup": tpot.mid, "tpot_speedup_low": tpot.low, "tpot_speedup_high": tpot.high,
    }  # fmt: skip
    whole_numbers = ("k", "concurrency", "context_tokens", "batch", "extra_gpus")
    flat = {
        column: np.broadcast_to(np.asarray(values, dtype=np.int64 if column in whole_numbers else np.float64), shape).ravel()
        for column, values in columns.items()
    }
    return {"drafter": name, "size": int(np.prod(shape)), "columns": flat}


def context_axis(context: Axis, input_tokens: int | None, output_tokens: int | None) -> FloatArray:
    """Keys of a decode step, ascending: as stated, else input + output / 2, else the default."""
    mean = (input_tokens or DEFAULT_CONTEXT) + (output_tokens or 0) // 2
    return axis("context", context, (mean,), 1, LARGEST_TOKENS)


def axis(field: str, values: Axis, default: Sequence[int], low: int, high: int) -> FloatArray:
    """One axis of the grid, checked: ascending whole numbers without repeats."""
    listed = default if values is None else [values] if isinstance(values, int | float | str) else list(values)
    if not len(listed):
        raise InputError(field, listed, "at least one value")
    return np.asarray(sorted({whole(field, v, low, high) for v in listed}), dtype=float)
