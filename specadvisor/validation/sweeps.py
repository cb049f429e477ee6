"""The table of measured sweeps: reading, types, and the names that slices go by."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from specadvisor.errors import InputError

REQUIRED = ("case_id", "group_id", "target", "target_config", "gpu", "engine", "drafter_kind", "k", "concurrency")
NUMBERS = (
    "k", "n_gpus", "tp", "pp", "dp", "ep", "concurrency", "isl", "osl", "context", "verified_tokens_per_seq", "temperature",
    "accept_len", "baseline_tok_s", "spec_tok_s", "baseline_tpot_ms", "spec_tpot_ms", "throughput_speedup", "tpot_speedup",
)  # fmt: skip
TEXTS = (
    "source_url", "weight_format", "kv_format", "engine_version", "async_scheduling", "cuda_graphs", "drafter_config", "tree",
    "concurrency_kind", "workload", "dataset", "survival", "notes",
)  # fmt: skip

_TIERS = (
    (r"^(h100|h200|gh200|a100|b200|b300|gb200|gb300|l40s|v100|p40|ga100|a10|l4)", "datacenter"),
    (r"^(gb10|thor|orin)", "edge/unified memory"),
    (r"^rtx", "consumer/workstation"),
)
_ARCHITECTURES = (
    (r"Qwen3\.[5-9]-.*A\d+B|Qwen3-Next|Nemotron", "hybrid MoE"),
    (r"Qwen3\.[5-9]-|Tess-4", "hybrid dense"),
    (r"A\d+B|DeepSeek|Kimi|GLM-[45](?!.*OCR)|MiniMax|gpt-oss|Scout|Laguna|Ling", "MoE"),
)
_LOADS = ((1, "c 1"), (8, "c 2-8"), (32, "c 9-32"), (128, "c 33-128"))
SLICES = ("tier", "architecture", "engine", "drafter_kind", "load", "acceptance_given", "family")


def read_sweeps(source: str | Path | pd.DataFrame) -> pd.DataFrame:
    """A sweep table with numbers as numbers (blank = nan), absent optional columns blank, and the derived columns
    ``family series tier architecture load acceptance_given`` (curve, length or none: the best of the group).

    Rows with k = 0 are left out: they are the implied option of every group, with speed-up 1.

    Rows whose k is no number of draft tokens are left out; ``attrs["unusable"]`` names them by line.
    Raises ``InputError`` for a file that is not such a table, has no usable row, or repeats a (group_id, k).
    """
    if isinstance(source, pd.DataFrame):
        table = source.astype(object).where(source.notna(), "").astype(str)
    else:
        try:
            table = pd.read_csv(source, dtype=str, keep_default_na=False)
        except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise InputError("sweeps", str(source), "a CSV file of measured sweeps", str(error).splitlines()[0]) from None
    missing = [name for name in REQUIRED if name not in table]
    if missing:
        raise InputError(
            "sweeps", str(list(table.columns)[:6]), f"columns {', '.join(REQUIRED)}", f"Missing: {', '.join(missing)}."
        )
    table = table.reset_index(drop=True)
    for name in TEXTS:
        table[name] = table[name].str.strip() if name in table else ""
    for name in NUMBERS:
        table[name] = pd.to_numeric(table[name].replace("", np.nan), errors="coerce") if name in table else np.nan
    good = (table.k >= 0) & (table.k % 1 == 0)
    unusable = [f"line {line + 2}: k is not a whole number of draft tokens" for line in table.index[~good]]
    table = table[good & (table.k > 0)].reset_index(drop=True)
    if table.empty:
        raise InputError("sweeps", "; ".join(unusable[:3]) or "no rows", "at least one row with draft tokens")
    table["k"] = table.k.astype(int)
    if table.duplicated(["group_id", "k"]).any():
        raise InputError("sweeps", "a repeated (group_id, k)", "one row per group and k")
    table = _with_slices(table)
    table.attrs["unusable"] = unusable
    return table


def _with_slices(table: pd.DataFrame) -> pd.DataFrame:
    table["family"] = table.case_id.str.split("-").str[0]
    table["series"] = table.group_id.str.replace(r"\|c\d+$", "", regex=True)
    table["tier"] = table.gpu.map(lambda name: _first(_TIERS, name, "other"))
    table["architecture"] = table.target.map(lambda name: _first(_ARCHITECTURES, name, "dense"))
    table["load"] = table.concurrency.map(lambda c: next((name for top, name in _LOADS if c <= top), "c >128"))
    given = np.where(table.survival != "", 2, np.where(table.accept_len.notna(), 1, 0))
    best = table.assign(given=given).groupby("group_id").given.transform("max")
    table["acceptance_given"] = best.map({0: "none", 1: "length", 2: "curve"})
    return table


def _first(rules: tuple[tuple[str, str], ...], text: str, otherwise: str) -> str:
    return next((name for pattern, name in rules if re.search(pattern, text)), otherwise)
