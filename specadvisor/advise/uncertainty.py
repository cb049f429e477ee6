"""How sure a predicted speed-up is: operator errors, acceptance and what is left.

A speed-up is a ratio of two times made of the same operators, so most of what an operator is too slow by in both cancels.
With relative errors e_c(step) and e_c(round) that are independent between operators c and correlated by r within one::

    d ln(speedup) = sum_c (share_c(step) * e_c(step) - share_c(round) * e_c(round)) + share(round) * d ln AL + residual

where the shares are of the whole time per token (prefill included) and share(round) is the part that is not prefill.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.hardware.kernel_profile import USER
from specadvisor.kernels import error_band
from specadvisor.kernels.parameters import find_entry
from specadvisor.model.architecture import Attention
from specadvisor.ranges import SIGMA_PER_MEDIAN_ERROR, Z80, FloatArray, Range

if TYPE_CHECKING:
    from specadvisor.step import Deployment, StepTime

# Log standard deviation of a measured speed-up around a prediction whose operators and acceptance are right. Published
# threads print 3-5% between repeats of one arm and up to 7-15% between boots and autotuning runs; a ratio has two arms.
# With 0.08 about 80% of the published sweeps lie in the stated interval (docs/accuracy.md).
RESIDUAL_SIGMA = 0.08

# How much less an operator's relative errors at M and at M * q rows go together for every doubling of q. Of matrix products
# of unseen shapes each time is off by 5.1% (median), the ratio T(M q)/T(M) by 2.9-3.7, 4.1-4.8, 5.4 and 6.0% at q = 2, 4, 8
# and 16 (benchmarks/kernel_accuracy.py): correlations 1 - (ratio / 5.1)^2 / 2 of about 0.79, 0.62, 0.44 and 0.31.
DECORRELATION = 0.19

# Median and p90 relative errors of the terms that have no fitted kernel law of their own: assumptions.
UNFITTED = {
    "sampling": (0.20, 0.50),
    "elementwise": (0.15, 0.35),
    "host": (0.30, 0.80),
    "prefill": (0.20, 0.50),
}
Z90 = 1.6449


def operator_sigmas(deployment: Deployment) -> dict[str, float]:
    """Log standard deviation of each component of a step, from the error bands of the kernel profile."""
    model, gpu, engine = deployment.model, deployment.gpu, deployment.serving.id
    mixers = [la.mixer for la in model.layers if isinstance(la.mixer, Attention)]
    sparse = any(m.top_k for m in mixers)
    attention = "sparse_attention" if sparse else "mla" if any(m.kind == "mla" for m in mixers) else "attention"
    bands = {
        "gemm": error_band(gpu, "gemm", model.weight_format, engine),
        "head": error_band(gpu, "gemm", model.head.format, engine),
        "attention": error_band(gpu, attention, deployment.kv_format, engine),
        "moe": error_band(gpu, "moe", model.weight_format, engine),
        "recurrent": error_band(gpu, "recurrent", "bf16", engine),
        "collective": error_band(gpu, "all_reduce", "bf16", engine),
    }
    return {name: sigma_of_band(*band[:2]) for name, band in (bands | UNFITTED).items()}


def sigma_of_band(median_error: float, p90_error: float) -> float:
    """Standard deviation that a median and a 90th percentile of absolute errors stand for, half from each.

    Operator errors have heavier tails than a normal law; the two estimates bracket the 80% interval that is reported.
    """
    return 0.5 * (SIGMA_PER_MEDIAN_ERROR * median_error + p90_error / Z90)


def acceptance_sigma(length: Range) -> FloatArray:
    """Log standard deviation of AL from its 80% interval."""
    spread: FloatArray = np.log(np.asarray(length.high) / np.asarray(length.low)) / (2 * Z80)
    return spread


def same_operator(query_tokens: FloatArray) -> FloatArray:
    """Correlation of an operator's relative error in a plain step with that in a pass over ``query_tokens`` per sequence."""
    return np.asarray(np.clip(1.0 - DECORRELATION * np.log2(query_tokens), 0.0, 1.0))


def log_ratio_sigma(
    base: StepTime,
    spec: StepTime,
    query_tokens: FloatArray,
    base_prefill_s: FloatArray,
    spec_prefill_s: FloatArray,
    sigmas: Mapping[str, float],
    length_sigma: FloatArray,
    residual_sigma: float,
) -> FloatArray:
    """Log standard deviation of the speed-up of ``spec`` over ``base`` (both per round, their prefill beside them).

    ``query_tokens`` are verified per sequence in ``spec``, one in ``base``.
    """
    base_s, spec_s = base.total_s + base_prefill_s, spec.total_s + spec_prefill_s
    decode = spec.total_s / spec_s
    variance = residual_sigma**2 + (decode * length_sigma) ** 2
    together = same_operator(query_tokens)
    for name in base.components.keys() | spec.components.keys():
        step, round_ = base.components.get(name, 0.0) / base_s, spec.components.get(name, 0.0) / spec_s
        variance = variance + sigmas[name] ** 2 * (step**2 + round_**2 - 2.0 * together * step * round_)
    prefill = base_prefill_s / base_s - spec_prefill_s / spec_s
    return np.sqrt(variance + (prefill * sigmas["prefill"]) ** 2)


def profile_states(deployment: Deployment) -> str:
    """One sentence: how well the kernel laws are known for this GPU."""
    entry = find_entry(deployment.gpu, "gemm", deployment.model.weight_format, deployment.serving.id)
    meaning = {
        "measured": "measured on this GPU",
        "sibling": "taken from kernels of another engine or GPUs of the same family",
        "extrapolated": "family defaults, no GPU of this kind was measured",
    }[entry.state]
    if own := entry.origin == USER:
        day = entry.provenance.get("measured_on") or entry.provenance.get("fitted") or "unknown date"
        meaning = f"your calibration of {day}" + ("" if entry.state == "measured" else ", on another engine's kernel")
        if measured := entry.provenance.get("measured_format"):
            meaning += f", measured in {measured} ({entry.kernel}): a stand-in for an engine's {entry.format} kernels"
    tested = "" if entry.error_measured else ", assumed: too few rows were measured"
    tested = tested or (", of one shape only" if "of one shape" in str(entry.provenance.get("error_on", "")) else "")
    errors = f"median error {entry.median_error:.0%}, p90 {entry.p90_error:.0%} for the matrices{tested}"
    return f"kernel times: {meaning} ({errors})" + ("" if own else "; calibrate to sharpen")
