"""From measured rows to a profile: the shared fit, with the measurement's provenance on every entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from specadvisor.calibration.rows import COLUMNS, Row
from specadvisor.calibration.run import Run
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import KernelProfile

if TYPE_CHECKING:
    import pandas as pd

_PROVENANCE = ("measured_on", "device", "driver", "cublas", "blas")


def as_table(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as the fit reads them."""
    import pandas as pd

    frame = pd.DataFrame([asdict(r) for r in rows], columns=list(COLUMNS))
    frame["auto"] = frame["auto"].astype(int)
    return frame


def build_profile(run: Run, gpu: Gpu) -> tuple[KernelProfile, list[str]]:
    """(profile, notes): one entry per operator, format and kernel that has rows enough.

    Stand-in kernels carry the engine ``any``: an engine that asks for them gets the state ``sibling`` and the wider error.
    """
    from specadvisor.calibration.fit import fit_and_problems  # scipy and pandas: only when there is something to fit

    facts = {key: run.conditions[key] for key in _PROVENANCE if run.conditions.get(key)}
    profile, problems = fit_and_problems(as_table(run.rows), gpu, provenance=facts)
    notes = []
    for entry in profile.entries:
        for warning in entry.provenance.get("warnings", ()):
            notes.append(f"fit of {entry.operator} {entry.format}: {warning}")
    fitted = {e.operator for e in profile.entries}
    for operator in dict.fromkeys(r.operator for r in run.rows if r.operator in ("gemm", "attention", "moe", "all_reduce")):
        if operator not in fitted:
            why = "; ".join(problem for problem in problems if problem.startswith(f"{operator} ")) or "too few usable rows"
            notes.append(f"not fitted: {why}; the parameters from before stay in use")
    return profile, notes
