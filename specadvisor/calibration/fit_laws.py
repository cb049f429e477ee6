"""What fitting needs to know of each operator: its terms from table columns, its law, what it reads, what is fitted.

The formulas themselves are in ``specadvisor.kernels``; nothing is repeated here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.formats import weight_format
from specadvisor.hardware import Gpu
from specadvisor.kernels.attention import attention_law, attention_terms
from specadvisor.kernels.collective import all_reduce_law, all_reduce_terms
from specadvisor.kernels.gemm import gemm_law, gemm_terms
from specadvisor.kernels.memory_bound import memory_law, memory_terms
from specadvisor.kernels.mla import MLA_BACKEND, mla_law, mla_terms
from specadvisor.kernels.moe import moe_law, moe_terms, padded_rows
from specadvisor.kernels.parameters import cache_bytes
from specadvisor.kernels.recurrent import recurrent_law, recurrent_terms
from specadvisor.kernels.routing import active_experts
from specadvisor.kernels.sparse import index_logits_law, index_terms, sparse_attention_law, sparse_terms
from specadvisor.ranges import FloatArray
from specadvisor.serving.attention import AttentionBackend

if TYPE_CHECKING:
    import pandas as pd

Terms = tuple[FloatArray, ...]


@dataclass(frozen=True)
class Law:
    """One operator.

    ``start``: the parameters that can be fitted, with a generic value; ``spread``: standard deviation of their logarithm around
    the family default. ``fitted`` names those that the rows of a table determine, the rest keeps the family default.
    ``second_start``: other starting values, taken where they fit clearly better. ``key`` columns name a shape: all rows of one
    shape stay on one side of a split; ``within`` columns are its sizes, split where there is one shape only. ``fixed``:
    parameters that the law states itself. ``footprint``: bytes that one call reads, per operand set.
    """

    terms: Callable[[Gpu, pd.DataFrame, str], Any]
    law: Callable[..., FloatArray]
    footprint: Callable[[pd.DataFrame, str], FloatArray]
    key: tuple[str, ...]
    start: Mapping[str, float]
    spread: Mapping[str, float]
    fitted: Callable[[pd.DataFrame], set[str]] = lambda frame: set()
    second_start: Mapping[str, float] = field(default_factory=dict)
    within: tuple[str, ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)


def _columns(frame: pd.DataFrame, *names: str) -> list[FloatArray]:
    return [frame[name].to_numpy(dtype=np.float64) for name in names]


def _or(frame: pd.DataFrame, name: str, value: Any) -> FloatArray:
    filled = frame[name].to_numpy(dtype=np.float64) if name in frame.columns else np.full(len(frame), np.nan)
    return np.where(np.isnan(filled), value, filled)


def _gemm_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    m, n, k = _columns(frame, "m", "n", "k")
    return gemm_terms(gpu, m, n, k, format)


def _gemm_bytes(frame: pd.DataFrame, format: str) -> FloatArray:
    n, k = _columns(frame, "n", "k")
    return n * k * weight_format(format).bytes_per_weight


def _keys(frame: pd.DataFrame) -> FloatArray:
    context, query = _columns(frame, "context", "query_tokens")
    window = _or(frame, "window", 0.0)
    return np.where(window > 0, np.minimum(context, window + query - 1.0), context)


def _attention_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    batch, query, heads, kv_heads, dim = _columns(frame, "batch", "query_tokens", "heads", "kv_heads", "head_dim")
    value_dim, keys, tiles = _or(frame, "value_dim", dim), _keys(frame), _or(frame, "tile_rows", 128.0)
    parts = []
    for tile in np.unique(tiles):
        a = tiles == tile
        shape = batch[a], query[a], keys[a], heads[a], kv_heads[a], dim[a], value_dim[a]
        parts.append((np.flatnonzero(a), attention_terms(gpu, *shape, format, AttentionBackend("kernel", (int(tile),)))))
    order = np.argsort(np.concatenate([index for index, _ in parts]))
    columns = zip(*([np.broadcast_to(x, len(index)) for x in terms] for index, terms in parts), strict=True)
    return type(parts[0][1])(*(np.concatenate(pieces)[order] for pieces in columns))


def _attention_fitted(frame: pd.DataFrame) -> set[str]:
    """Head dimensions have their own SM rate; matrix time and re-reads show only with several query tokens."""
    dims, query = _columns(frame, "head_dim", "query_tokens")
    names = {"t0_s", "em", "tc_s", "norm"}
    edges = {"sm_64": (0, 96), "sm_128": (96, 128), "sm_192": (128, 192), "sm_256": (192, np.inf)}
    names |= {name for name, (above, most) in edges.items() if ((dims > above) & (dims <= most)).any()}
    return names | ({"ec", "reread"} if (query > 1).any() else set())


def _attention_bytes(frame: pd.DataFrame, format: str) -> FloatArray:
    batch, kv_heads, dim = _columns(frame, "batch", "kv_heads", "head_dim")
    return batch * _keys(frame) * kv_heads * (dim + _or(frame, "value_dim", dim)) * cache_bytes(format)


def _mla_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    batch, query, keys, heads = _columns(frame, "batch", "query_tokens", "context", "heads")
    return mla_terms(gpu, batch, query, keys, heads, format, MLA_BACKEND)


def _mla_bytes(frame: pd.DataFrame, format: str) -> FloatArray:
    batch, context = _columns(frame, "batch", "context")
    return batch * context * 576.0 * cache_bytes(format)


def _loads(frame: pd.DataFrame) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(experts, rows, padded rows) of the timed rank: given by the table, else expected under the row's routing."""
    if {"active", "rows", "padded"} <= set(frame.columns):
        active, rows, padded = _columns(frame, "active", "rows", "padded")
        return active, rows, padded
    tokens, experts, top_k = _columns(frame, "tokens", "experts", "top_k")
    ep = _or(frame, "ep", 1.0)
    routing = frame["routing"] if "routing" in frame.columns else ["uniform"] * len(frame)
    shapes = zip(tokens, experts, top_k, routing, strict=True)
    active = np.array([active_experts(t, int(e), int(k), r) for t, e, k, r in shapes]) / ep
    rows = tokens * top_k / ep
    return active, rows, padded_rows(rows, active)


def _moe_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    hidden, intermediate, experts = _columns(frame, "hidden", "intermediate", "experts")
    inner, local = intermediate / _or(frame, "tp", 1.0), experts / _or(frame, "ep", 1.0)
    return moe_terms(gpu, *_loads(frame), local, hidden, inner, format, _or(frame, "matrices", 3.0))


def _moe_bytes(frame: pd.DataFrame, format: str) -> FloatArray:
    hidden, intermediate = _columns(frame, "hidden", "intermediate")
    weights = _or(frame, "matrices", 3.0) * hidden * intermediate / _or(frame, "tp", 1.0)
    return _loads(frame)[0] * weights * weight_format(format).bytes_per_weight


def _sparse_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    batch, query, top_k, heads = _columns(frame, "batch", "query_tokens", "top_k", "heads")
    return sparse_terms(gpu, batch * query, top_k, heads)


def _index_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    return index_terms(gpu, *_columns(frame, "batch", "query_tokens", "context", "heads", "head_dim"))


def _recurrent_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    return recurrent_terms(gpu, *_columns(frame, "batch", "query_tokens", "state_bytes"))


def _recurrent_bytes(frame: pd.DataFrame, format: str) -> FloatArray:
    batch, query, state = _columns(frame, "batch", "query_tokens", "state_bytes")
    return batch * state * (1.0 + query)


def _all_reduce_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    return all_reduce_terms(gpu, *_columns(frame, "bytes", "ranks"))


def _memory_terms(gpu: Gpu, frame: pd.DataFrame, format: str) -> Any:
    return memory_terms(gpu, *_columns(frame, "bytes"))


def _memory_bytes(frame: pd.DataFrame, format: str) -> FloatArray:
    return _columns(frame, "bytes")[0]


def _always_cold(frame: pd.DataFrame, format: str) -> FloatArray:
    return np.full(len(frame), np.inf)


_T0, _EM, _EC, _STEP = 0.7, 0.15, 0.5, 1.0
LAWS: dict[str, Law] = {
    "gemm": Law(
        _gemm_terms, gemm_law, _gemm_bytes, ("n", "k"),
        {"t0_s": 4e-6, "em": 0.88, "ec": 0.6, "tk_s": 2e-7, "step": 0.7, "wave": 0.4, "norm": 4.0, "jump": 1.2},
        {"t0_s": _T0, "em": _EM, "ec": _EC, "tk_s": _STEP, "step": 0.5, "wave": 0.5, "norm": 0.4, "jump": 0.3},
        within=("m",),
    ),
    "attention": Law(
        _attention_terms, attention_law, _attention_bytes, ("heads", "kv_heads", "head_dim", "window"),
        {
            "t0_s": 1.2e-5, "em": 0.9, "sm_64": 15.0, "sm_128": 15.0, "sm_192": 15.0, "sm_256": 15.0, "ec": 0.6, "tc_s": 1e-6,
            "norm": 1.5, "reread": 0.3,
        },
        {
            "t0_s": _T0, "em": _EM, "sm_64": 0.7, "sm_128": 0.7, "sm_192": 0.7, "sm_256": 0.7, "ec": _EC, "tc_s": _STEP,
            "norm": 0.4, "reread": 0.5,
        },
        _attention_fitted,
        within=("batch", "context"),
    ),
    "mla": Law(
        _mla_terms, mla_law, _mla_bytes, ("heads", "context"),
        {"t0_s": 1.3e-5, "em": 0.8, "ec": 0.6, "tc_s": 1e-6, "norm": 6.0, "reread": 0.4, "sm_128": 15.0},
        {"t0_s": _T0, "em": _EM, "ec": _EC, "tc_s": _STEP, "norm": 0.4, "reread": 0.5, "sm_128": 0.7},
        second_start={"sm_128": 1.0, "reread": 0.1},
        within=("batch", "query_tokens"),
    ),
    "sparse_attention": Law(
        _sparse_terms, sparse_attention_law, _always_cold, ("batch", "query_tokens"),
        {"t0_s": 5e-6, "ec": 0.6, "split": 1.4}, {"t0_s": _T0, "ec": _EC, "split": 0.5},
        within=("top_k", "heads"),
    ),
    "index_logits": Law(
        _index_terms, index_logits_law, _always_cold, ("context",),
        {"t0_s": 4e-6, "ec": 0.45}, {"t0_s": _T0, "ec": _EC},
        within=("batch", "query_tokens"),
    ),
    "moe": Law(
        _moe_terms, moe_law, _moe_bytes, ("hidden", "intermediate", "experts", "top_k", "tp", "ep"),
        {"t0_s": 3.5e-5, "em": 0.85, "ec": 0.35, "ea": 0.3, "te_s": 2e-8, "tk_s": 5e-7, "norm": 3.0, "step": 0.6},
        {"t0_s": _T0, "em": 0.3, "ec": 0.7, "ea": 1.0, "te_s": _STEP, "tk_s": _STEP, "norm": 0.4, "step": 0.5},
        within=("tokens",),
    ),
    "recurrent": Law(
        _recurrent_terms, recurrent_law, _recurrent_bytes, ("state_bytes",),
        {"t0_s": 6e-6, "ts_s": 5e-7, "em": 0.85}, {"t0_s": _T0, "ts_s": _STEP, "em": _EM},
        within=("batch", "query_tokens"),
    ),
    "all_reduce": Law(
        _all_reduce_terms, all_reduce_law, _always_cold, ("bytes",),
        {"t0_s": 4e-6, "tn_s": 2e-7, "e": 0.65, "one": 0.6, "t2_s": 3e-6},
        {"t0_s": _T0, "tn_s": _STEP, "e": 0.3, "one": 0.3, "t2_s": _STEP},
        within=("ranks",),
    ),
    "memory": Law(
        _memory_terms, memory_law, _memory_bytes, ("bytes",),
        {"t0_s": 2e-6, "em": 0.85}, {"t0_s": _T0, "em": _EM},
        within=("bytes",),
    ),
}  # fmt: skip
