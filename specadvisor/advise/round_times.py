"""A table of round times over load and k: what the tuner weighs acceptance against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Seconds of a round over (concurrency, k = 0..k_max), and what turns rounds into throughput.

    ``per_token_s``: prefill seconds that every output token of the batch brings with it (0 if prefill runs elsewhere),
    the same shape; ``batch``: requests that run together, None if all of them do.
    """

    concurrency: FloatArray
    round_s: FloatArray
    batch: FloatArray | None = None
    per_token_s: FloatArray | None = None

    def __post_init__(self) -> None:
        loads, times = np.asarray(self.concurrency, dtype=float), np.asarray(self.round_s, dtype=float)
        if loads.ndim != 1 or not loads.size or np.any(np.diff(loads) <= 0) or loads[0] <= 0:
            raise InputError("concurrency", loads.tolist(), "numbers above 0 in rising order")
        if times.ndim != 2 or times.shape[0] != loads.size or times.shape[1] < 2 or not np.all(times > 0):
            raise InputError("round times", times.shape, f"seconds above 0 for {loads.size} loads by k = 0, 1, ...")
        object.__setattr__(self, "concurrency", loads)
        object.__setattr__(self, "round_s", times)
        for name, default in (("batch", np.broadcast_to(loads[:, None], times.shape)), ("per_token_s", np.zeros_like(times))):
            given = getattr(self, name)
            value = default if given is None else np.broadcast_to(np.asarray(given, dtype=float), times.shape)
            object.__setattr__(self, name, value)

    def at(self, concurrency: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(round seconds, batch, prefill seconds per output token) over k, linear between loads, held outside."""
        assert self.batch is not None and self.per_token_s is not None
        loads = self.concurrency
        i = int(np.clip(np.searchsorted(loads, concurrency), 1, max(loads.size - 1, 1)))
        if loads.size == 1:
            return self.round_s[0], self.batch[0], self.per_token_s[0]
        w = float(np.clip((concurrency - loads[i - 1]) / (loads[i] - loads[i - 1]), 0.0, 1.0))
        tables = (self.round_s, self.batch, self.per_token_s)
        round_s, batch, per_token_s = ((1 - w) * table[i - 1] + w * table[i] for table in tables)
        return round_s, batch, per_token_s
