"""Host time that the GPU waits for, and the launch-bound floor of passes without a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment


def exposed_host_s(deployment: Deployment, gpu_s: Any) -> FloatArray:
    """Host seconds of one step or round that the GPU waits for.

    With overlapped scheduling the host prepares step n + 1 while the GPU runs step n, so only what is longer than the
    GPU's part (``gpu_s``: all passes of the round) shows; without, all of it does.
    """
    host, gpu = deployment.serving.host_s, np.asarray(gpu_s, dtype=float)
    return np.maximum(0.0, host - gpu) if deployment.overlaps_host else np.full_like(gpu, host)


def launch_bound_s(
    deployment: Deployment, layer_count: int, tokens: Any, batch: Any, query_tokens: Any, gpu_s: Any
) -> FloatArray:
    """Seconds by which launching every kernel from the host takes longer than running it; 0 inside a graph.

    Engines capture graphs up to a number of tokens; a batch beyond it, or a deployment without graphs, runs eagerly.
    """
    floor = deployment.serving.eager_layer_s * layer_count
    missing = np.maximum(0.0, floor - np.asarray(gpu_s, dtype=float))
    if not deployment.graphs:
        return missing
    ceiling = deployment.serving.graph_ceiling(deployment.gpu, batch, query_tokens, tp=deployment.tp)
    return np.where(np.asarray(tokens) > ceiling, missing, 0.0)
