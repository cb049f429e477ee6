"""Tables of measured kernel times: reading and checking.

One row is one call. Columns ``operator``, ``format``, ``us`` (microseconds) and the shape columns of that operator
(``SHAPES``); optional ``engine``, ``kernel``, ``sets`` (operand copies the benchmark rotates through), ``calls`` (calls in one
launched graph), ``auto`` (0: a forced kernel choice, left out) and ``engine_version``. CSV or Parquet; the CSV of
``specadvisor calibrate`` is one of them, with a head that names its GPU (``table_head``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specadvisor.calibration.table_head import Head, read_head
from specadvisor.errors import InputError, MissingDependency, nearest
from specadvisor.ids import ENGINES, resolve

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
# Who runs a kernel that is no serving engine's.
NO_ENGINE = ("any", "nccl")
# Line of the file that a row was read from; dropped once the table is checked.
_LINE = "_line"


@dataclass(frozen=True)
class Measurements:
    """A checked table, its head, and its text as CSV where the file is one."""

    rows: pd.DataFrame
    head: Head
    csv: str = ""


def read_measurements(path: str | Path) -> pd.DataFrame:
    """The checked table in one CSV or Parquet file; raises ``InputError`` with file, row and column of what is wrong."""
    return read_table(path).rows


def read_table(path: str | Path) -> Measurements:
    """``read_measurements``, with what the file says of its GPU and conditions."""
    import pandas as pd

    path = Path(path)
    if not path.is_file():
        raise InputError("measurements", str(path), "an existing CSV or Parquet file")
    head, text = Head(), ""
    if path.suffix.lower() == ".parquet":
        try:
            frame = pd.read_parquet(path)
        except ImportError as error:
            raise MissingDependency("pyarrow", "reading Parquet", "pip install 'specadvisor[parquet]'") from error
        except (OSError, ValueError) as error:
            raise InputError("measurements", str(path), "a readable Parquet file", str(error)) from error
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
            frame = pd.read_csv(path, comment="#", encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise InputError("measurements", str(path), "a readable CSV file with a header", str(error)) from error
        head = read_head(text, path.name)
        lines = [n for n, line in enumerate(text.splitlines(), 1) if line.partition("#")[0].strip()]
        if len(lines) == len(frame) + 1:  # otherwise a quoted cell holds a line break
            frame[_LINE] = lines[1:]
    frame = check_measurements(frame, path.name)
    _check_engines(frame, path.name)
    return Measurements(frame, head, text)


def check_measurements(frame: pd.DataFrame, where: str = "measurements") -> pd.DataFrame:
    """A copy with defaults filled in and rows of unknown operators left out; raises where a needed column is not usable."""
    for column in ("operator", "us"):
        if column not in frame.columns:
            raise _missing(where, column, frame)
    frame = frame.copy()
    if _LINE not in frame.columns:
        frame[_LINE] = range(2, len(frame) + 2)
    known = frame["operator"].isin(list(SHAPES))
    if not known.any():
        operator = str(frame["operator"].iloc[0]) if len(frame) else "no rows"
        raise InputError(f"{where}: operator", operator, ", ".join(SHAPES), nearest(operator, SHAPES))
    frame = frame[known].reset_index(drop=True)
    for name, value in DEFAULTS.items():
        frame[name] = frame[name].astype(object).replace("", None).fillna(value) if name in frame.columns else value
    for group, rows in frame.groupby("operator"):
        for column in ("us", *SHAPES[str(group)]):
            if column not in rows.columns:
                raise _missing(f"{where}: {group}", column, rows)
            _check_numbers(rows, column, f"{where}: {group}", lambda v: (v > 0) & (v < float("inf")), "a number above 0")
    for column in ("sets", "calls"):
        _check_numbers(frame, column, where, lambda v: (v >= 1) & (v < float("inf")), "a number from 1")
    for column in {"auto", "stand_in"} & set(frame.columns):
        _check_numbers(frame, column, where, lambda v: v.isin([0, 1]), "0 or 1")
    return frame.drop(columns=_LINE)


def _check_engines(frame: pd.DataFrame, where: str) -> None:
    """Raise ``InputError`` for an engine that no question can name: its kernels would never be used. Aliases count."""
    for engine in dict.fromkeys(frame["engine"].map(str)):
        if engine not in NO_ENGINE:
            name = f"{where}: engine"
            try:
                resolved = resolve("engine", engine)
            except InputError as error:
                accepted = ", ".join((*ENGINES, *NO_ENGINE))
                raise InputError(name, engine, accepted, nearest(engine, ENGINES)) from error
            frame.loc[frame["engine"] == engine, "engine"] = resolved


def _missing(where: str, column: str, frame: pd.DataFrame) -> InputError:
    columns = ", ".join(str(name) for name in frame.columns if name != _LINE)
    return InputError(f"{where}: columns", columns, f"a table with the column {column}")


def _check_numbers(
    rows: pd.DataFrame, column: str, where: str, accepts: Callable[[pd.Series], pd.Series], accepted: str
) -> None:
    import pandas as pd

    values = pd.to_numeric(rows[column], errors="coerce")
    if (bad := ~accepts(values)).any():
        first = rows[bad].iloc[0]
        value = first[column]
        shown = "nothing" if pd.isna(value) else value.item() if hasattr(value, "item") else value
        raise InputError(f"{where}: {column} in line {first[_LINE]}", shown, accepted)
