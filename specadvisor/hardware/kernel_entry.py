"""Fitted kernel parameters with their provenance: the one schema for shipped profiles and the user's own calibration.

Reading and writing is in ``kernel_profile``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from specadvisor.errors import InputError, nearest

STATES = ("measured", "sibling", "extrapolated")
ANY = "any"
USER, SHIPPED, FAMILY = "user", "shipped", "family"
# Engines whose kernels stand in for another engine's, best guess first.
_LENDERS = ("vllm", "sglang", "tensorrt_llm")


class Bound(NamedTuple):
    """Physical limits of one parameter, and its value where a profile does not state it (None: it must)."""

    low: float
    high: float
    default: float | None = None


_FLOOR, _EFFICIENCY, _STEP = Bound(1e-8, 1e-3), Bound(0.02, 1.25), Bound(1e-10, 1e-4)
# Part of t0_s that launches a graph of one call and is paid once in a whole-model graph: 1 where every call had a graph of
# its own (the published tables), 0 where many calls shared one (``specadvisor calibrate``).
_LAUNCH = Bound(0.0, 1.0, 1.0)
# Cached elements per SM and cycle; 1000 is no limit.
_SM_RATE = Bound(0.1, 1000.0, 1000.0)

# What each operator's law is made of; the laws are in ``specadvisor.kernels``, one module per operator.
OPERATORS: dict[str, dict[str, Bound]] = {
    "gemm": {
        "t0_s": _FLOOR, "launch": _LAUNCH, "em": _EFFICIENCY, "ec": _EFFICIENCY, "tk_s": _STEP, "step": Bound(0.02, 1.0, 1.0),
        "wave": Bound(0.02, 1.0, 0.3), "norm": Bound(1.0, 10.0, 4.0), "jump": Bound(1.0, 2.5, 1.0),
        "row_cycles": Bound(0.0, 1.0, 0.0), "row_limit": Bound(1.0, 4096.0, 8.0), "wide_factor": Bound(0.2, 10.0, 1.0),
    },
    "attention": {
        "t0_s": _FLOOR, "launch": _LAUNCH, "em": _EFFICIENCY, "sm_64": _SM_RATE, "sm_128": _SM_RATE, "sm_192": _SM_RATE,
        "sm_256": _SM_RATE,
        "ec": _EFFICIENCY, "tc_s": _STEP, "norm": Bound(1.0, 6.0, 2.0), "reread": Bound(0.0, 1.0, 0.3),
        "serial": Bound(0.1, 20.0, 1.2), "latency_s": Bound(0.0, 1e-4, 0.0),
    },
    "mla": {
        "t0_s": _FLOOR, "launch": _LAUNCH, "em": _EFFICIENCY, "ec": _EFFICIENCY, "tc_s": Bound(1e-10, 1e-4, 1e-10),
        "norm": Bound(1.0, 10.0, 6.0),
        "sm_128": _SM_RATE, "reread": Bound(0.0, 1.0, 0.3), "serial": Bound(0.1, 20.0, 1.2),
    },
    "sparse_attention": {"t0_s": _FLOOR, "launch": _LAUNCH, "ec": _EFFICIENCY, "split": Bound(1.0, 4.0, 1.0)},
    "index_logits": {"t0_s": _FLOOR, "launch": _LAUNCH, "ec": _EFFICIENCY, "em": Bound(0.02, 1.25, 0.8)},
    "moe": {
        "t0_s": _FLOOR, "launch": _LAUNCH, "em": _EFFICIENCY, "ec": Bound(0.02, 1.5), "ea": Bound(0.005, 20.0),
        "te_s": Bound(1e-12, 1e-5, 1e-12),
        "tk_s": Bound(1e-10, 1e-4, 1e-10), "norm": Bound(1.0, 8.0, 4.0), "step": Bound(0.02, 1.0, 1.0),
    },
    "recurrent": {"t0_s": _FLOOR, "launch": _LAUNCH, "ts_s": _STEP, "em": _EFFICIENCY},
    "all_reduce": {
        "t0_s": _FLOOR, "tn_s": _STEP, "e": Bound(0.01, 1.25), "one": Bound(0.01, 1.25, 0.6), "t2_s": Bound(1e-9, 1e-3, 1e-9),
    },
    "memory": {"t0_s": _FLOOR, "launch": _LAUNCH, "em": _EFFICIENCY},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """Parameters of one (operator, format, engine) on one GPU; ``kernel`` tells apart several kernels of one engine.

    ``operator``: a key of ``OPERATORS``. ``format``: kernel family of the weight format (gemm, moe), ``bf16`` or
    ``fp8`` for the cache (attention, mla), else ``any``. ``state``: ``measured`` on this GPU, taken from a ``sibling``
    of its family, or ``extrapolated``. Errors are absolute relative errors on shapes that the fit did not see, or a default
    where ``error_measured`` is False. ``origin``: the user's own calibration, the shipped profile or the family's defaults.
    """

    operator: str
    format: str
    engine: str
    parameters: Mapping[str, float]
    state: str
    median_error: float
    p90_error: float
    provenance: Mapping[str, Any] = field(default_factory=dict)
    kernel: str = ""
    origin: str = SHIPPED

    @property
    def error_measured(self) -> bool:
        return not str(self.provenance.get("error_on", "")).startswith("not measured")


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """All entries of one GPU, and behind them the defaults of its family (state and errors as they hold for this GPU).

    ``calibration``: the file of the user's own entries; empty where there are none.
    Where an engine has several kernels for one format, the first one listed is the engine's own choice.
    """

    gpu: str
    entries: tuple[KernelEntry, ...]
    source: str = "shipped"
    defaults: tuple[KernelEntry, ...] = ()
    calibration: str = ""
    _found: dict[tuple[str, str, str, str], KernelEntry] = field(default_factory=dict, init=False, repr=False, compare=False)

    def find(self, operator: str, format: str, engine: str, kernel: str = "") -> KernelEntry:
        """The entry for exactly this, else the same format on another engine, else the family default (in that order).

        Of several, what was measured goes before a stand-in, a user's own too; else the first listed.
        An entry that was measured with another engine comes back as ``sibling`` with the family's error if that is wider;
        ``only_this_engine`` in an entry's provenance keeps a kernel that is slow beyond its kind from being lent.
        """
        key = (operator, format, engine, kernel)
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def in_use(self) -> tuple[KernelEntry, ...]:
        """Entries of this GPU, and the family defaults for what they do not cover."""
        covered = {(e.operator, e.format) for e in self.entries}
        return (*self.entries, *(e for e in self.defaults if (e.operator, e.format) not in covered))

    def _search(self, operator: str, format: str, engine: str, kernel: str) -> KernelEntry:
        own = [e for e in self.entries if e.operator == operator and e.format == format]
        family = [e for e in self.defaults if e.operator == operator and e.format == format]
        default = next((e for e in family if e.engine == engine), next((e for e in family if e.engine == ANY), None))
        fitting = [e for e in own if e.engine in (engine, ANY) and kernel in ("", e.kernel)]
        if fitting:
            return min(fitting, key=lambda e: STATES.index(e.state))
        others = [e for e in own if not e.provenance.get("only_this_engine")]
        if others:
            return _from_other_engine(min(others, key=_preference), default)
        if default is None:
            known = sorted({f"{e.operator} {e.format}" for e in (*self.entries, *self.defaults)})
            accepted = ", ".join(known) or "none"
            raise InputError("kernel", f"{operator} {format} on {self.gpu}", accepted, nearest(f"{operator} {format}", known))
        return default


def _preference(entry: KernelEntry) -> int:
    return _LENDERS.index(entry.engine) if entry.engine in _LENDERS else len(_LENDERS)


def _from_other_engine(entry: KernelEntry, default: KernelEntry | None) -> KernelEntry:
    median = max(entry.median_error, default.median_error if default else 0.0)
    p90 = max(entry.p90_error, default.p90_error if default else 0.0)
    state = "sibling" if entry.state == "measured" else entry.state
    return replace(entry, state=state, median_error=median, p90_error=p90)
