"""Cut the published kernel tables to what the fits and the accuracy benchmark need.

    python benchmarks/import_kernel_tables.py DIR

DIR holds gemm, attn_decode, mla_decode, moe, allreduce, linear_attention and multi_query ``.parquet`` with the columns of
NVIDIA's AIConfigurator tables (see ``benchmarks/data/kernel_tables/README.md``). Writes one file per operator there, in the
column names of ``specadvisor.calibration.measurements``.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from specadvisor.calibration.fit_laws import LAWS
from specadvisor.hardware import load_gpu

TARGET = Path(__file__).parent / "data" / "kernel_tables"
GPUS = {"a100_sxm": "a100_sxm_80gb"}
ENGINES = {"trtllm": "tensorrt_llm"}
FORMATS = {"bfloat16": "bf16", "sq": "int8", "int8_wo": "w8a16", "int4_wo": "w4a16", "w4a16_mxfp4": "mxfp4", "fp8_e4m3": "fp8"}
WEIGHTS = ("bf16", "fp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16", "mxfp4")
DRAWS = 24


def main(source: Path) -> None:
    tables = {
        "gemm": gemm(read(source, "gemm")),
        "attention": attention(read(source, "attn_decode")),
        "mla": mla(read(source, "mla_decode")),
        "moe": moe(read(source, "moe")),
        "all_reduce": all_reduce(read(source, "allreduce")),
        "recurrent": recurrent(read(source, "linear_attention")),
        "multi_query": multi_query(read(source, "multi_query")),
    }
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table = table[[c for c in table.columns if c not in ("engine_version", "us")] + ["engine_version", "us"]]
        path = TARGET / f"{name}.parquet"
        table.to_parquet(path, index=False, compression="zstd")
        print(f"{name:12s} {len(table):7d} rows {path.stat().st_size / 1e6:6.2f} MB")


def read(source: Path, name: str) -> pd.DataFrame:
    table = pd.read_parquet(source / f"{name}.parquet")
    table["gpu"], table["engine"] = table["gpu"].replace(GPUS), table["engine"].replace(ENGINES)
    return table


def gemm(table: pd.DataFrame) -> pd.DataFrame:
    """Verify shapes: up to 1,024 rows, sides 1,024..16,384; rotated weight copies as the collectors' sources say."""
    table = table.assign(operator="gemm", format=table["dtype"].replace(FORMATS))
    table = table[
        (table["m"] <= 1024) & table["n"].between(1024, 16384) & table["k"].between(1024, 16384) & ~table["host_bound"]
    ]
    one_copy = (table["engine"] == "vllm") & table["format"].isin(["fp8_block", "nvfp4"])
    sets = np.where(one_copy, 1, np.where(table["engine"] == "tensorrt_llm", 5, 6))
    return cold(table.assign(sets=sets.astype("int8")), ["m", "n", "k", "sets"])


def attention(table: pd.DataFrame) -> pd.DataFrame:
    """Decode over at least 128 keys; without the fallback kernel that TensorRT-LLM's decode uses from 48 heads per KV head."""
    table = table.rename(
        columns={
            "batch_size": "batch",
            "q_len": "query_tokens",
            "seq_len": "context",
            "num_heads": "heads",
            "window_size": "window",
        }
    ).rename(columns={"num_key_value_heads": "kv_heads"})
    table = table.assign(operator="attention", format=table["kv_dtype"].replace(FORMATS), sets=1)
    fallback = (table["engine"] == "tensorrt_llm") & (table["heads"] >= 48 * table["kv_heads"])
    seen = np.where(table["window"] > 0, np.minimum(table["context"], table["window"]), table["context"])
    shape = ["batch", "query_tokens", "context", "heads", "kv_heads", "head_dim", "window"]
    return cold(table[(seen >= 128) & ~fallback], shape)


def mla(table: pd.DataFrame) -> pd.DataFrame:
    table = table.rename(columns={"batch_size": "batch", "seq_len": "context", "num_heads": "heads"})
    table = table.assign(operator="mla", format=table["kv_dtype"].replace(FORMATS), query_tokens=1, sets=1)
    return cold(table, ["batch", "query_tokens", "context", "heads"])


def moe(table: pd.DataFrame) -> pd.DataFrame:
    """Up to 1,024 tokens, every split; the load of the timed (hottest) rank is the expected one of the collector's routing."""
    names = {
        "num_tokens": "tokens",
        "hidden_size": "hidden",
        "inter_size": "intermediate",
        "num_experts": "experts",
        "topk": "top_k",
    }
    table = table.rename(columns={**names, "moe_tp_size": "tp", "moe_ep_size": "ep", "distribution": "routing"})
    table = table.assign(operator="moe", format=table["dtype"].replace(FORMATS), sets=1)
    table = table[(table["tokens"] <= 1024) & table["format"].isin(WEIGHTS)]
    table = table.assign(matrices=np.where(table["kernel"].str.contains("nongated"), 2, 3).astype("int8"))
    load = ["tokens", "experts", "top_k", "ep", "routing"]
    loads = table[load].drop_duplicates()
    rng = np.random.default_rng(20261129)
    loads[["active", "rows", "padded"]] = [hottest_rank(*row, rng) for row in loads.itertuples(index=False)]
    table = table.merge(loads.astype(dict.fromkeys(("active", "rows", "padded"), "float32")), on=load)
    shape = [
        "tokens",
        "hidden",
        "intermediate",
        "experts",
        "top_k",
        "tp",
        "ep",
        "matrices",
        "routing",
        "active",
        "rows",
        "padded",
    ]
    return cold(table, shape)


def hottest_rank(tokens: int, experts: int, top_k: int, ep: int, routing: str, rng: np.random.Generator) -> tuple[float, ...]:
    """(experts, rows, rows padded to 16) of the busiest of ``ep`` ranks.

    ``balanced`` gives every expert the same number of rows. ``power_law_a`` draws loads from a truncated power law of exponent
    a (range 1..0.8 tokens, or 0.01..2 when rows are scarcer than experts), scales them to tokens * top_k, no expert above
    ``tokens``, as AIConfigurator's collector does; the mean of 24 draws stands for its single one.
    """
    local, total = experts // ep, tokens * top_k
    if routing == "balanced":
        used = min(experts, total) / ep
        return used, total / ep, used * np.ceil(total / ep / used / 16) * 16
    a = float(routing.rsplit("_", 1)[1])
    low, high = (1.0, 0.8 * tokens) if total > experts else (0.01, 2.0)
    uniform = rng.random((DRAWS, experts))
    loads = ((high ** (1 - a) - low ** (1 - a)) * uniform + low ** (1 - a)) ** (1 / (1 - a))
    loads = np.minimum(np.round(loads / loads.sum(axis=1, keepdims=True) * total), tokens)
    for draw in loads:
        spread_remainder(draw, total, tokens)
    ranks = loads.reshape(DRAWS, ep, local)
    hot = ranks[np.arange(DRAWS), ranks.sum(axis=2).argmax(axis=1)]
    return (hot > 0).sum(1).mean(), hot.sum(1).mean(), (np.ceil(hot / 16) * 16).sum(1).mean()


def spread_remainder(loads: np.ndarray, total: int, most: int) -> None:
    """Add or take single rows, busiest experts first, until the loads sum to ``total``."""
    order = np.argsort(-loads)
    step = 1 if loads.sum() < total else -1
    while (missing := abs(int(total - loads.sum()))) > 0:
        open_ = order[(loads[order] < most) if step > 0 else (loads[order] > 0)]
        loads[open_[:missing]] += step


def all_reduce(table: pd.DataFrame) -> pd.DataFrame:
    """Inside CUDA graphs, up to 64 MiB."""
    table = table[~table["variant"].str.endswith("eager") & (table["message_size"] <= 2**25)]
    table = table.assign(operator="all_reduce", format="any", bytes=2 * table["message_size"].astype("int64"), sets=1)
    table = table.rename(columns={"num_gpus": "ranks", "variant": "kernel"})
    return table[[*HEAD, "bytes", "ranks", "engine_version", "us"]]


def recurrent(table: pd.DataFrame) -> pd.DataFrame:
    """Decode and verify; the convolution kernels never touch the state that their rows carry."""
    table = table[~table["kernel"].str.startswith("causal_conv1d") & table["phase"].isin(["generation", "verify"])]
    table = table.rename(columns={"batch_size": "batch", "q_len": "query_tokens"})
    table = table.assign(operator="recurrent", format="any", sets=1)
    return cold(table, ["batch", "query_tokens", "state_bytes", "num_v_heads", "phase"])


def multi_query(table: pd.DataFrame) -> pd.DataFrame:
    """Sparse attention (2,048 slots) and the paged indexer; DeepSeek-V4 keeps one indexer key per four tokens."""
    table = table.rename(columns={"batch_size": "batch", "q_len": "query_tokens", "num_heads": "heads"})
    sparse = table[table["op"] == "glm5_dsa_attn_module"].assign(operator="sparse_attention", top_k=2048)
    index = table[(table["op"] == "dsv4_paged_mqa_logits_module") & (table["prefix_len"] >= 1024)]
    index = index.assign(operator="index_logits", context=index["prefix_len"] / 4.0, head_dim=128, heads=64)
    table = pd.concat([sparse, index]).assign(format="any", sets=1)
    table = table[table["batch"] * table["query_tokens"] <= 4096]
    return table[[*HEAD, "batch", "query_tokens", "context", "heads", "head_dim", "top_k", "engine_version", "us"]]


HEAD = ["gpu", "engine", "operator", "format", "kernel"]


def cold(table: pd.DataFrame, shape: list[str]) -> pd.DataFrame:
    """Rows whose data exceeds L2 (nominal size); the fit applies the margin. Repeated keys become their median."""
    kept = []
    for (gpu, operator, format), rows in table.groupby(["gpu", "operator", "format"]):
        law = LAWS[str(operator)]
        rows = rows.astype({c: "float64" for c in rows.columns if c in law.key and c != "routing"})
        kept.append(rows[law.footprint(rows, str(format)) * rows["sets"] > _l2(str(gpu))])
    table = pd.concat(kept)
    key = [*HEAD, *shape, *([] if "sets" in shape else ["sets"]), "engine_version"]
    table = table.groupby(key, as_index=False, sort=True)["us"].median()
    whole = [c for c in table.columns if table[c].dtype == "float64" and c not in ("us", "active", "rows", "padded")]
    return table.astype({**dict.fromkeys(whole, "int32"), "us": "float32"})


@cache
def _l2(gpu: str) -> float:
    return load_gpu(gpu).l2_bytes


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
