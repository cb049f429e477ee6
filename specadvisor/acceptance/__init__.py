"""Acceptance of draft tokens: survival curves, their sources and their uncertainty."""

from specadvisor.acceptance.convert import (
    from_alpha,
    from_conditional,
    from_counts,
    from_cumulative,
    from_histogram,
    from_length,
    from_lengths,
    from_rate,
    from_steps,
    to_histogram,
)
from specadvisor.acceptance.priors import prior
from specadvisor.acceptance.survival import Survival
from specadvisor.acceptance.workloads import parse_mix

__all__ = [
    "Survival",
    "from_alpha",
    "from_conditional",
    "from_counts",
    "from_cumulative",
    "from_histogram",
    "from_length",
    "from_lengths",
    "from_rate",
    "from_steps",
    "parse_mix",
    "prior",
    "to_histogram",
]
