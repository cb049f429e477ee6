"""From measured rows to a profile: the shared fit and its gate, with the measurement's provenance on every entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specadvisor.calibration.cpu_run import FORMAT
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
    """``fitted_profile`` of a run."""
    return fitted_profile(as_table(run.rows), gpu, run.conditions)


def fitted_profile(
    rows: pd.DataFrame, gpu: Gpu, conditions: Mapping[str, Any], table: str = ""
) -> tuple[KernelProfile, list[str]]:
    """(profile, notes): one entry per operator, format and kernel that has rows enough. ``table``: file of the rows.

    Stand-in kernels carry the engine ``any``: an engine that asks for them gets the state ``sibling`` and the wider error.
    Raises ``Unreliable`` where times or fit cannot be believed, ``InputError`` where there is nothing to fit.
    """
    from specadvisor.calibration.fit import fit_and_problems  # scipy and pandas: only when there is something to fit
    from specadvisor.calibration.gate import check_fit, check_speeds
    from specadvisor.calibration.measurements import check_measurements

    checked = check_measurements(rows)
    check_speeds(checked, gpu)
    facts = {key: conditions[key] for key in _PROVENANCE if conditions.get(key)}
    if gpu.family == "cpu":  # the laws have no fp32 kernels: what was measured stands in for 16-bit weights, and says so
        facts["measured_format"] = FORMAT
    facts |= {"table": table} if table else {}
    profile, problems = fit_and_problems(checked, gpu, provenance=facts)
    notes = check_fit(profile)
    fitted = {e.operator for e in profile.entries}
    for problem in problems:
        rest = "" if problem.split()[0] in fitted else "; the parameters from before stay in use"
        notes.append(f"not fitted: {problem}{rest}")
    return profile, notes
