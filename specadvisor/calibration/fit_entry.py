"""The profile entry of a fitted table: how far off it is on rows that the fit did not see, and where it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.hardware.kernel_profile import KernelEntry

if TYPE_CHECKING:
    from specadvisor.calibration.fit import Fitted

# Median and 90th percentile where no row can be left out of the fit.
ASSUMED = (0.1, 0.3)


def entry_of(
    fitted: Fitted, operator: str, format: str, engine: str, kernel: str, provenance: Mapping[str, Any]
) -> KernelEntry:
    """The profile entry of a fitted table; its error is that of rows left out of the fit (``error_on`` says which).

    Where none could be left out it is the assumed one, or that of the fit's own rows where even these are worse.
    """
    errors = fitted.errors()
    seen = ~np.isnan(errors)
    if seen.any():
        median, p90 = (float(np.quantile(errors[seen], q)) for q in (0.5, 0.9))
    else:
        errors, seen = fitted.residuals(), np.ones(len(errors), bool)
        median, p90 = (max(float(np.quantile(errors, q)), least) for q, least in zip((0.5, 0.9), ASSUMED, strict=True))
    versions = sorted({str(v) for v in fitted.used["engine_version"]} - {""})
    facts: dict[str, Any] = {
        **provenance,
        "rows": len(fitted.used),
        "dropped": {why: count for why, count in fitted.dropped.items() if count},
        "error_on": fitted.error_on,
        "fitted": date.today().isoformat(),
    }
    single = seen & (fitted.used["m"].to_numpy(dtype=np.float64) == 1.0) if operator == "gemm" else np.zeros(len(errors), bool)
    if single.any():
        facts["single_row_error"] = round(float(np.median(errors[single])), 4)
    if versions:
        facts["engine_version"] = ", ".join(versions)
    if fitted.warnings:
        facts["warnings"] = list(fitted.warnings)
    return KernelEntry(operator, format, engine, fitted.parameters, "measured", median, p90, facts, kernel)


def of_no_engine(entry: KernelEntry, default: KernelEntry | None) -> KernelEntry:
    """The entry of a kernel that no engine runs: a sibling of theirs, with the family's error where that is wider."""
    median, p90 = (default.median_error, default.p90_error) if default else (0.0, 0.0)
    return replace(entry, state="sibling", median_error=max(entry.median_error, median), p90_error=max(entry.p90_error, p90))
