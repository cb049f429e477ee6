"""What numpy and its BLAS do that no GPU kernel does: another routine for a single row, attention in several passes."""

from __future__ import annotations

from dataclasses import replace

from specadvisor.calibration.fit_laws import LAWS, Law
from specadvisor.hardware.gpu import Gpu

# A BLAS multiplies a single row without packing the weight, by another routine: the law's step of kernels that change with
# the rows (``row_limit``, ``wide_factor``), at one row. ``em`` is the single row's share of the bandwidth, em / wide_factor
# that of packing; ``row_cycles`` only switches the step on.
_BLAS_GEMM = replace(
    LAWS["gemm"],
    start={**LAWS["gemm"].start, "wide_factor": 2.0},
    spread={**LAWS["gemm"].spread, "wide_factor": 1.0},
    fixed={"row_limit": 1.0, "row_cycles": 1e-9},
)

# Scores, softmax and sums pass through memory one after the other: what share of the bandwidth is left for the cache is no
# matter of the family that the GPU kernels' prior knows.
_NUMPY_ATTENTION = replace(
    LAWS["attention"],
    spread={**LAWS["attention"].spread, "em": 1.5, "ec": 1.5},
    second_start={"t0_s": 2e-5, "em": 0.1, "ec": 0.3},
)


def law_of(gpu: Gpu, operator: str) -> Law:
    """The law of ``operator`` as ``gpu`` runs it: a processor's are those of numpy and its BLAS."""
    if gpu.family == "cpu":
        return {"gemm": _BLAS_GEMM, "attention": _NUMPY_ATTENTION}.get(operator, LAWS[operator])
    return LAWS[operator]
