"""One load of an evaluated grid as plain vectors along k."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor.advise.evaluate import Evaluation
from specadvisor.ranges import FloatArray


class Point:
    """One column of an ``Evaluation`` over (k, concurrency) as plain vectors along k."""

    def __init__(self, evaluation: Evaluation, column: int, k: int) -> None:
        self.ks = evaluation.k.ravel().astype(int)
        shape = np.broadcast_shapes(evaluation.k.shape, evaluation.concurrency.shape)
        base_shape = (1, *shape[1:])

        def along_k(values: Any) -> FloatArray:
            return np.asarray(np.broadcast_to(values, shape)[:, column], dtype=float)

        def at_base(values: Any) -> float:
            return float(np.broadcast_to(values, base_shape)[0, column])

        self.k = k
        self.concurrency = at_base(evaluation.concurrency)
        self.context = at_base(evaluation.context)
        self.base_batch = at_base(evaluation.baseline_batch)
        self.base = {name: at_base(seconds) for name, seconds in evaluation.baseline.components.items()}
        self.base_s = sum(self.base.values())
        self.batch = along_k(evaluation.batch)
        self.length = along_k(evaluation.acceptance_length.mid)
        self.round = {name: along_k(seconds) for name, seconds in evaluation.round.components.items()}
        self.round_s = along_k(evaluation.round_s)
        self.draft_s = along_k(evaluation.draft_s)
        self.draft = {name: along_k(seconds) for name, seconds in evaluation.draft.components.items()}
        self.verified = along_k(evaluation.verified_tokens)
        self.speedup = along_k(evaluation.throughput_speedup.mid)
        self.gpu_share = evaluation.gpu_share

    @property
    def index(self) -> int | None:
        """Position of the chosen k; None for k = 0."""
        found = np.flatnonzero(self.ks == self.k)
        return int(found[0]) if found.size else None

    @property
    def query_tokens(self) -> float:
        return float(self.verified[self.index]) if self.index is not None else 1.0

    @property
    def running(self) -> float:
        return float(self.batch[self.index]) if self.index is not None else self.base_batch

    @property
    def times_s(self) -> FloatArray:
        """Step (k = 0) and round (k of the grid), seconds."""
        return np.concatenate(([self.base_s], self.round_s))

    @property
    def lengths(self) -> FloatArray:
        """AL at k = 0 and at the k of the grid."""
        return np.concatenate(([1.0], self.length))
