"""All-reduce over the GPUs of one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from specadvisor.errors import InputError
from specadvisor.hardware import Gpu
from specadvisor.kernels.parameters import as_gpu, find_entry, positive
from specadvisor.ranges import FloatArray


class AllReduceTerms(NamedTuple):
    """Seconds on the link at datasheet speed for both algorithms, and ranks beyond the first."""

    one_shot_s: FloatArray
    two_shot_s: FloatArray
    partners: FloatArray


def all_reduce_s(gpu: str | Gpu, message_bytes: Any, ranks: Any, engine: str = "vllm") -> FloatArray:
    """Seconds of one all-reduce of ``message_bytes`` over ``ranks`` GPUs (``all_reduce_law``); 0 for one rank.

    Raises ``InputError`` for several ranks of a GPU without a link.
    """
    gpu = as_gpu(gpu)
    entry = find_entry(gpu, "all_reduce", "any", engine)
    ranks = positive("ranks", ranks)
    if not gpu.link_bytes_per_s and ranks.max(initial=1.0) > 1.0:
        raise InputError("tp (ranks)", int(ranks.max()), "1", f"{gpu.id} has no link to another GPU.")
    terms = all_reduce_terms(gpu, positive("message_bytes", message_bytes), ranks)
    return np.where(ranks > 1.0, all_reduce_law(entry.parameters, terms), 0.0)


def all_reduce_terms(gpu: Gpu, message_bytes: FloatArray, ranks: FloatArray) -> AllReduceTerms:
    """Traffic per GPU and direction: one-shot reads every partner's message, (n - 1) of them; two-shot (reduce-scatter, then
    all-gather; rings alike) 2 (n - 1) / n of one.
    """
    message_s = message_bytes / (gpu.link_bytes_per_s or np.inf)
    return AllReduceTerms(message_s * (ranks - 1.0), message_s * 2.0 * (ranks - 1.0) / ranks, ranks - 1.0)


def all_reduce_law(p: Mapping[str, float], terms: AllReduceTerms) -> FloatArray:
    """``T = t0 + tn (ranks - 1) + min(one_shot / one, t2 + two_shot / e)``: engines switch algorithm with the message size.

    Inside a CUDA graph; eager launches add 15-40 us.
    """
    moving = np.minimum(terms.one_shot_s / p["one"], p["t2_s"] + terms.two_shot_s / p["e"])
    return p["t0_s"] + p["tn_s"] * terms.partners + moving
