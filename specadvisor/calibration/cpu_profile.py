"""The one thing a BLAS does that no GPU kernel does: another routine for a single row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specadvisor.calibration.cpu_run import FORMAT
from specadvisor.calibration.rows import Row
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.kernel_profile import OPERATORS, KernelEntry, KernelProfile
from specadvisor.kernels.gemm import gemm_law, gemm_terms


def with_single_row_kernel(profile: KernelProfile, rows: Sequence[Row], gpu: Gpu) -> KernelProfile:
    """A BLAS multiplies one row without packing the weight: give the product's law that routine's bandwidth.

    The law has such a step for engines whose kernels change with the rows (``row_limit``, ``wide_factor``); here it is at
    one row. For more rows nothing changes: memory / em * wide_factor is what the fit found without the single rows.
    """
    profile = replace(profile, entries=tuple(_labelled(entry) for entry in profile.entries))
    single = [r for r in rows if r.operator == "gemm" and r.m == 1]
    if not single:
        return profile
    return replace(profile, entries=tuple(_with_step(e, single, gpu) if e.operator == "gemm" else e for e in profile.entries))


def _labelled(entry: KernelEntry) -> KernelEntry:
    """The laws have no fp32 kernels: what was measured stands in for 16-bit weights and caches, and says so."""
    return replace(entry, provenance={**entry.provenance, "measured_format": FORMAT})


def _with_step(entry: KernelEntry, single: Sequence[Row], gpu: Gpu) -> KernelEntry:
    m, n, k, us = (np.array([getattr(r, name) for r in single], dtype=np.float64) for name in ("m", "n", "k", "us"))
    terms = gemm_terms(gpu, m, n, k, FORMAT)
    bounds = OPERATORS["gemm"]["em"]
    step = {**entry.parameters, "row_limit": 1.0, "row_cycles": 1e-9}
    shares = np.geomspace(bounds.low, bounds.high, 300)
    errors = [np.median(np.abs(np.log(gemm_law({**step, "em": em}, terms) / (us * 1e-6)))) for em in shares]
    em = float(shares[int(np.argmin(errors))])
    limits = OPERATORS["gemm"]["wide_factor"]
    wide = float(np.clip(em / entry.parameters["em"], limits.low, limits.high))
    return replace(entry, parameters={**step, "em": em, "wide_factor": wide})
