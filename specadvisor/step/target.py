"""Seconds of one whole forward pass of the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.host import exposed_host_s, launch_bound_s
from specadvisor.step.layers import layers_time
from specadvisor.step.time import StepTime


def padded_rows(deployment: Deployment, batch: Any, query_tokens: Any) -> FloatArray:
    """Tokens that the matrices see: batch * query_tokens, rounded up to the engine's next captured graph."""
    tokens = np.asarray(batch, dtype=float) * query_tokens
    if not deployment.graphs:
        return tokens
    return np.maximum(tokens, deployment.serving.graph_tokens(batch, query_tokens, deployment.gpu, tp=deployment.tp))


def target_step(deployment: Deployment, batch: Any, query_tokens: Any, context: Any, *, host: bool = True) -> StepTime:
    """One forward pass: layers, output head and sampling of every position, and host time.

    ``batch`` sequences (of this replica) with ``query_tokens`` each, on ``context`` keys; arrays broadcast over
    (k, concurrency, context). Plain decoding is ``query_tokens`` = 1. With ``host`` False the exposed host time is left
    out: a speculation round overlaps it with drafting and verification together.
    """
    model = deployment.model
    rows = padded_rows(deployment, batch, query_tokens)
    time = layers_time(deployment, model.layers, batch, query_tokens, context, rows=rows)
    time = time + head_time(deployment, model.head, rows) + sampling_time(deployment, rows, model.vocab)
    time = time.plus("host", launch_bound_s(deployment, model.layer_count, rows, batch, query_tokens, time.total_s))
    return time.plus("host", exposed_host_s(deployment, time.total_s)) if host else time
