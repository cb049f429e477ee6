"""Workload mixes: ``coding:0.7,chat:0.3``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specadvisor.errors import InputError
from specadvisor.ids import resolve

# Shares are often written with two digits: 0.33,0.33,0.33.
ROUNDING = 0.02


def parse_mix(workload: str | Mapping[str, float]) -> dict[str, float]:
    """Shares by workload id, summing to 1. As text they do, or sum to 100; without shares every id counts alike.

    Shares of a mapping are weights of any sum. Raises ``InputError``.
    """
    if isinstance(workload, Mapping):
        items = [(str(name), share) for name, share in workload.items()]
    else:
        items = []
        for part in str(workload).split(","):
            name, colon, text = part.partition(":")
            try:
                items.append((name, float(text) if colon else 1.0))
            except ValueError:
                raise InputError("workload", workload, "an id or shares such as coding:0.7,chat:0.3") from None
    shares: dict[str, float] = {}
    for name, share in items:
        if not np.isfinite(share) or share <= 0:
            raise InputError("workload", workload, "shares above 0, such as coding:0.7,chat:0.3")
        workload_id = resolve("workload", name)
        shares[workload_id] = shares.get(workload_id, 0.0) + float(share)
    if not shares:
        raise InputError("workload", workload, "at least one workload id")
    total = sum(shares.values())
    if isinstance(workload, str) and ":" in workload and min(abs(total - whole) / whole for whole in (1.0, 100.0)) > ROUNDING:
        raise InputError("workload", workload, "shares that sum to 1 (or 100)", f"These sum to {total:g}.")
    return {name: share / total for name, share in shares.items()}
