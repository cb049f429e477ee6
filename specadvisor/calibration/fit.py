"""From measured times to kernel parameters: the one fit behind the shipped profiles and the user's own calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration.cpu_law import law_of
from specadvisor.calibration.fit_entry import entry_of, of_no_engine
from specadvisor.calibration.fit_laws import Law
from specadvisor.calibration.folds import OWN_ROWS, folds
from specadvisor.calibration.measurements import check_measurements
from specadvisor.errors import InputError
from specadvisor.hardware import Gpu, load_gpu
from specadvisor.hardware.kernel_profile import ANY, OPERATORS, KernelProfile, family_defaults
from specadvisor.kernels.parameters import format_family
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    import pandas as pd

L2_MARGIN = 1.3
SCALE = 0.1
MOST_ROWS = 1500
FEWEST_ROWS = 6
# A parameter on such a bound is a form without that effect, not a badly determined number.
_NO_EFFECT = {"jump": 1.0, "step": 1.0, "wave": 1.0, "norm": 1.0, "split": 1.0, "reread": 1.0, "wide_factor": 1.0}


@dataclass(frozen=True)
class Fitted:
    """Parameters of one table, and what happened on the way.

    ``predictions``: every used row from a fit without it (``error_on`` says what was left out together), NaN where too few
    rows were left for such a fit; ``of_own_fit``: every used row from the fit itself.
    """

    parameters: dict[str, float]
    used: pd.DataFrame
    predictions: FloatArray
    of_own_fit: FloatArray
    dropped: dict[str, int]
    warnings: tuple[str, ...]
    error_on: str

    def errors(self) -> FloatArray:
        """Absolute relative error of every used row, unseen by the fit."""
        return self._errors(self.predictions)

    def residuals(self) -> FloatArray:
        """Absolute relative error of every used row that the fit has seen: a lower bound of its error elsewhere."""
        return self._errors(self.of_own_fit)

    def _errors(self, predicted: FloatArray) -> FloatArray:
        return np.abs(predicted / (self.used["us"].to_numpy(dtype=np.float64) * 1e-6) - 1.0)


def fit_profile(
    measurements: pd.DataFrame, gpu: str | Gpu, *, source: str = "user", provenance: Mapping[str, Any] | None = None
) -> KernelProfile:
    """A profile with one entry per (operator, format, engine, kernel) that has rows enough, pulled to the family defaults.

    An engine's own kernels come before those of no engine, so that they are found first. Raises ``InputError`` if nothing can
    be fitted. What was used, dropped and warned about stands in each entry's provenance.
    """
    return fit_and_problems(measurements, gpu, source=source, provenance=provenance)[0]


def fit_and_problems(
    measurements: pd.DataFrame, gpu: str | Gpu, *, source: str = "user", provenance: Mapping[str, Any] | None = None
) -> tuple[KernelProfile, list[str]]:
    """``fit_profile``, and a sentence for each (operator, format, kernel) that had too few usable rows."""
    gpu = load_gpu(gpu) if isinstance(gpu, str) else gpu
    frame = check_measurements(measurements)
    defaults = {(e.operator, e.format): e for e in reversed(family_defaults(gpu))}
    entries, problems = [], []
    for key, rows in frame.groupby(["operator", "format", "engine", "kernel"]):
        operator, format, engine, kernel = map(str, key)
        family = format_family(operator, format)
        default = defaults.get((operator, family))
        try:
            fitted = fit_table(gpu, operator, format, rows, default.parameters if default else None)
        except InputError as error:
            problems.append(f"{operator} {format} {kernel or engine}: {error.value}, {FEWEST_ROWS} are needed")
            continue
        entry = entry_of(fitted, operator, family, engine, kernel, provenance or {})
        if "stand_in" in fitted.used and fitted.used["stand_in"].eq(1).any():
            entry = of_no_engine(entry, default)
        entries.append((len(fitted.used), entry))
    if not entries:
        raise InputError("measurements", "; ".join(problems) or "no rows", f"{FEWEST_ROWS} or more usable rows of one operator")
    entries.sort(key=lambda pair: (pair[1].engine == ANY, -pair[0]))
    return KernelProfile(gpu.id, tuple(entry for _, entry in entries), source, family_defaults(gpu)), problems


def fit_table(gpu: Gpu, operator: str, format: str, rows: pd.DataFrame, prior: Mapping[str, float] | None = None) -> Fitted:
    """Fit one (operator, format) on the cold, physical rows; raises ``InputError`` if too few are left."""
    law = law_of(gpu, operator)
    used, dropped = usable_rows(gpu, law, rows, format)
    if len(used) < FEWEST_ROWS:
        left_out = ", ".join(f"{count} {why}" for why, count in dropped.items() if count) or "none left out"
        raise InputError("rows", f"{len(used)} usable rows ({left_out})", f"{FEWEST_ROWS} or more")
    terms, seconds = law.terms(gpu, used, format), used["us"].to_numpy(dtype=np.float64) * 1e-6
    names = [name for name in law.start if name in (law.fitted(used) or law.start)]
    if "launch" in OPERATORS[operator]:
        prior = {**(prior or {}), "launch": float(used["calls"].astype(float).median() <= 1.0)}
    parameters = fit_parameters(operator, law, terms, seconds, prior, names)
    fold, error_on = folds(used, law)
    predictions = np.full(len(used), np.nan)
    for number in np.unique(fold):
        rest = np.flatnonzero(fold != number)
        if len(rest) >= FEWEST_ROWS:
            here = fold == number
            part = fit_parameters(operator, law, take(terms, rest), seconds[rest], prior, names, begin=parameters)
            predictions[here] = law.law(part, take(terms, np.flatnonzero(here)))
    warnings = tuple(f"{name} ends on its bound {parameters[name]:.3g}" for name in on_bound(operator, names, parameters))
    of_own_fit = law.law(parameters, terms)
    if np.isnan(predictions).all():
        error_on = OWN_ROWS
    return Fitted(parameters, used, predictions, of_own_fit, dropped, warnings, error_on)


def fit_parameters(
    operator: str,
    law: Law,
    terms: Any,
    seconds: FloatArray,
    prior: Mapping[str, float] | None = None,
    names: Sequence[str] | None = None,
    begin: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Least squares in the logarithm of time with a soft-L1 loss (scale 0.1) and a ridge to ``prior`` in log parameters.

    Parameters are positive (their logarithm is fitted) and bounded. At most
    ``MOST_ROWS`` rows are used, chosen evenly. ``begin`` only shortens the way.
    """
    from scipy.optimize import least_squares

    if len(seconds) > MOST_ROWS:
        chosen = np.linspace(0, len(seconds) - 1, MOST_ROWS).astype(np.intp)
        terms, seconds = take(terms, chosen), seconds[chosen]
    names = list(names or law.start)
    start = {name: (prior or {}).get(name) or law.start[name] for name in names}
    bounds = [OPERATORS[operator][name] for name in names]
    low, high = np.log([max(b.low, 1e-12) for b in bounds]), np.log([b.high for b in bounds])
    centre, spread = np.log([start[name] for name in names]), np.array([law.spread[name] for name in names])
    fixed = {**law.start, **{name: b.default for name, b in OPERATORS[operator].items() if b.default is not None}}
    fixed |= {**(prior or {}), **law.fixed}
    target = np.log(seconds)

    def residuals(x: FloatArray) -> FloatArray:
        predicted = law.law({**fixed, **dict(zip(names, np.exp(x), strict=True))}, terms)
        return np.concatenate([np.log(predicted) - target, SCALE * (x - centre) / spread])

    def solve(start_at: Mapping[str, float]) -> Any:
        first = np.log([max(start_at[name], 1e-12) for name in names])
        inside = np.clip(first, low + 1e-6, high - 1e-6)
        return least_squares(
            residuals, inside, bounds=(low, high), loss="soft_l1", f_scale=SCALE, x_scale=0.3, max_nfev=40, ftol=1e-5
        )

    solved = solve(begin or start)
    if law.second_start:
        other = solve({**start, **law.second_start})
        solved = other if other.cost < 0.9 * solved.cost else solved
    return {**fixed, **{name: float(value) for name, value in zip(names, np.exp(solved.x), strict=True)}}


def usable_rows(gpu: Gpu, law: Law, rows: pd.DataFrame, format: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Rows whose data came from memory (operand sets together above 1.3 x L2) and that no bandwidth limit contradicts."""
    footprint = law.footprint(rows, format)
    warm = footprint * rows["sets"].to_numpy(dtype=np.float64) <= L2_MARGIN * gpu.l2_bytes
    finite = np.where(np.isfinite(footprint), footprint, 0.0)
    impossible = rows["us"].to_numpy(dtype=np.float64) * 1e-6 < finite / gpu.memory_bytes_per_s
    forced = rows["auto"].to_numpy(dtype=np.float64) == 0
    dropped = {
        "read from L2": int(warm.sum()),
        "faster than memory allows": int((impossible & ~warm).sum()),
        "forced kernel choice": int((forced & ~warm & ~impossible).sum()),
    }
    return rows[~(warm | impossible | forced)], dropped


def take(terms: Any, index: NDArray[np.intp]) -> Any:
    """The rows ``index`` of a named tuple of arrays."""
    return type(terms)(*(np.broadcast_to(column, np.shape(terms[0]))[index] for column in terms))


def on_bound(operator: str, names: Iterable[str], parameters: Mapping[str, float]) -> list[str]:
    """Fitted parameters that ended on a bound of their range."""
    found = []
    for name in names:
        bound, value = OPERATORS[operator][name], parameters[name]
        low, high = value < max(bound.low, 1e-12) * 1.02, value > bound.high / 1.02
        if high and name.startswith("sm_"):
            continue  # such a rate means that no SM limit shows
        if (low or high) and abs(value - _NO_EFFECT.get(name, -1.0)) > 0.03 and not name.endswith("_s"):
            found.append(name)
    return found


def geometric_mean(sets: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """One parameter set in the middle of several: the mean logarithm of those that state the parameter.

    A parameter that is zero anywhere stays zero; an SM rate of 1000 says that no such shape was measured.
    """
    sets = list(sets)
    mean = {}
    for name in sets[0]:
        values = [p[name] for p in sets]
        if name.startswith("sm_"):
            values = [v for v in values if v < OPERATORS["attention"][name].high] or values
        mean[name] = float(np.exp(np.mean(np.log(values)))) if min(values) > 0 else 0.0
    return mean
