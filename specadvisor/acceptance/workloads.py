"""Workload mixes: ``coding:0.7,chat:0.3``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specadvisor.errors import InputError
from specadvisor.ids import resolve


def parse_mix(workload: str | Mapping[str, float]) -> dict[str, float]:
    """Shares by workload id, scaled to sum to 1; a single id counts as share 1."""
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
    return {name: share / total for name, share in shares.items()}
