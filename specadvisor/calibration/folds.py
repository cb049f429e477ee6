"""Which rows are left out together, so that an error is that of rows which the fit did not see."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.calibration.fit_laws import Law
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 4
UNSEEN_SHAPES = "shapes left out of the fit"
# The prefix "not measured" marks an error that is assumed (``KernelEntry.error_measured``).
OWN_ROWS = "not measured: the fit's own rows, too few to leave any out"


def folds(rows: pd.DataFrame, law: Law) -> tuple[FloatArray, str]:
    """(fold number of every row, what is left out together). Where there is one shape, its sizes take turns instead."""
    if _groups(rows, law.key).ngroups > 1:
        return shape_folds(rows, law.key), UNSEEN_SHAPES
    names = " and ".join(name.replace("_", " ") for name in law.within)
    return shape_folds(rows, law.within), f"{names} left out of the fit, of one shape"


def shape_folds(rows: pd.DataFrame, key: Sequence[str]) -> FloatArray:
    """Fold number of every row by a hash of its shape: the same on every machine, all rows of one shape together.

    Few shapes whose hashes agree would leave nothing to test on: these are dealt out in their order.
    """
    groups = _groups(rows, key)
    shapes = [shape if isinstance(shape, tuple) else (shape,) for shape in groups.groups]
    numbers = [zlib.crc32("/".join(f"{float(side):g}" for side in shape).encode()) % FOLDS for shape in shapes]
    if len(set(numbers)) == 1:
        numbers = [i % FOLDS for i in range(len(shapes))]
    return np.array(numbers)[groups.ngroup().to_numpy()]


def _groups(rows: pd.DataFrame, key: Sequence[str]) -> Any:
    """Rows by the columns of ``key`` that the table has."""
    present = [name for name in key if name in rows.columns]
    return rows.groupby(present if len(present) > 1 else present[0], dropna=False, sort=True)
