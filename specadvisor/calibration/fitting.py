"""From measured rows to a profile: the shared fit, with the measurement's provenance on every entry."""

from __future__ import annotations

from dataclasses import replace

from specadvisor.calibration.run import Run
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import KernelProfile


def fitted(run: Run, gpu: Gpu) -> tuple[KernelProfile, list[str]]:
    """(profile, notes of the fit)"""
    from specadvisor.calibration.fit import fit_profile  # scipy: only when there is something to fit

    profile = fit_profile(run.rows, gpu)
    where = {key: run.conditions[key] for key in ("measured_on", "device", "driver", "cublas", "blas") if run.conditions.get(key)}
    entries = tuple(replace(e, provenance={**e.provenance, **where}) for e in profile.entries)
    return replace(profile, entries=entries, source="user"), []
