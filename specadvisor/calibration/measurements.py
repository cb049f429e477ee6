"""Tables of measured kernel times: reading and checking.

One row is one call. Columns ``operator``, ``format``, ``us`` (microseconds) and the shape columns of that operator
(``SHAPES``); optional ``engine``, ``kernel``, ``sets`` (operand copies the benchmark rotates through), ``calls`` (calls in one
launched graph), ``auto`` (0: a forced kernel choice, left out) and ``engine_version``. CSV or Parquet; the CSV of
``specadvisor calibrate`` is one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from specadvisor.errors import InputError, MissingDependency, nearest

if TYPE_CHECKING:
    import pandas as pd

SHAPES: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "attention": ("batch", "query_tokens", "context", "heads", "kv_heads", "head_dim"),
    "mla": ("batch", "query_tokens", "context", "heads"),
    "sparse_attention": ("batch", "query_tokens", "heads", "top_k"),
    "index_logits": ("batch", "query_tokens", "context", "heads", "head_dim"),
    "moe": ("tokens", "hidden", "intermediate", "experts", "top_k"),
    "recurrent": ("batch", "query_tokens", "state_bytes"),
    "all_reduce": ("bytes", "ranks"),
    "memory": ("bytes",),
}
DEFAULTS: dict[str, Any] = {
    "engine": "any",
    "kernel": "",
    "sets": 1,
    "calls": 1,
    "auto": 1,
    "engine_version": "",
    "format": "any",
}


def read_measurements(path: str | Path) -> pd.DataFrame:
    """The checked table in one CSV or Parquet file; raises ``InputError`` with file, row and column of what is wrong."""
    import pandas as pd

    path = Path(path)
    if not path.is_file():
        raise InputError("measurements", str(path), "an existing CSV or Parquet file")
    if path.suffix.lower() == ".parquet":
        try:
            frame = pd.read_parquet(path)
        except ImportError as error:
            raise MissingDependency("pyarrow", "reading Parquet", "pip install 'specadvisor[parquet]'") from error
        except (OSError, ValueError) as error:
            raise InputError("measurements", str(path), "a readable Parquet file", str(error)) from error
    else:
        try:
            frame = pd.read_csv(path, comment="#")
        except (OSError, ValueError) as error:
            raise InputError("measurements", str(path), "a readable CSV file with a header", str(error)) from error
    return check_measurements(frame, path.name)


def check_measurements(frame: pd.DataFrame, where: str = "measurements") -> pd.DataFrame:
    """A copy with defaults filled in and rows of unknown operators left out; raises where a needed column is not usable."""
    for column in ("operator", "us"):
        if column not in frame.columns:
            raise _missing(where, column, frame)
    frame = frame.copy()
    known = frame["operator"].isin(list(SHAPES))
    if not known.any():
        operator = str(frame["operator"].iloc[0]) if len(frame) else "no rows"
        raise InputError(f"{where}: operator", operator, ", ".join(SHAPES), nearest(operator, SHAPES))
    frame = frame[known].reset_index(drop=True)
    for name, value in DEFAULTS.items():
        frame[name] = frame[name].astype(object).replace("", None).fillna(value) if name in frame.columns else value
    for group, rows in frame.groupby("operator"):
        for column in ("us", *SHAPES[str(group)]):
            _check_numbers(rows, column, f"{where}: {group}")
    return frame


def _missing(where: str, column: str, frame: pd.DataFrame) -> InputError:
    return InputError(f"{where}: columns", ", ".join(map(str, frame.columns)), f"a table with the column {column}")


def _check_numbers(rows: pd.DataFrame, column: str, where: str) -> None:
    import pandas as pd

    if column not in rows.columns:
        raise _missing(where, column, rows)
    values = pd.to_numeric(rows[column], errors="coerce")
    if (bad := ~(values > 0)).any():
        line = int(str(bad.idxmax())) + 2
        raise InputError(f"{where}: {column} in line {line}", rows[column][bad].iloc[0], "a number above 0")
