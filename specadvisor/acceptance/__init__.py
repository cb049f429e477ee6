"""Acceptance of draft tokens: survival curves, their sources and their uncertainty.

``fit_acceptance`` and ``AcceptanceFit`` load on first use: a plain recommendation does not need them.
"""

from typing import TYPE_CHECKING, Any

from specadvisor.acceptance.convert import (
    from_alpha,
    from_conditional,
    from_cumulative,
    from_histogram,
    from_length,
    from_lengths,
    from_rate,
    from_steps,
    to_histogram,
)
from specadvisor.acceptance.counters import from_counts
from specadvisor.acceptance.effects import with_gain
from specadvisor.acceptance.lookup import from_hit
from specadvisor.acceptance.priors import prior
from specadvisor.acceptance.survival import Survival
from specadvisor.acceptance.workloads import parse_mix

if TYPE_CHECKING:
    from specadvisor.acceptance.fit import fit_acceptance
    from specadvisor.acceptance.posterior import AcceptanceFit

__all__ = [
    "AcceptanceFit",
    "Survival",
    "fit_acceptance",
    "from_alpha",
    "from_conditional",
    "from_counts",
    "from_cumulative",
    "from_histogram",
    "from_hit",
    "from_length",
    "from_lengths",
    "from_rate",
    "from_steps",
    "parse_mix",
    "prior",
    "to_histogram",
    "with_gain",
]


def __getattr__(name: str) -> Any:
    if name in ("AcceptanceFit", "fit_acceptance"):
        from specadvisor.acceptance import fit, posterior

        return fit.fit_acceptance if name == "fit_acceptance" else posterior.AcceptanceFit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
