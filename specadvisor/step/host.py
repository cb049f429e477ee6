"""Host time that the GPU waits for, and the launch-bound floor of passes without a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment


def exposed_host_s(deployment: Deployment, gpu_s: Any, *, speculating: bool = False) -> FloatArray:
    """Host seconds of one step that the GPU waits for.

    With overlapped scheduling the host prepares step n + 1 while the GPU runs step n, so only what is longer than the
    GPU's part shows; without, all of it does. A speculation round adds ``round_overhead_s``, which depends on the
    accepted tokens and cannot be hidden.
    """
    serving = deployment.serving
    gpu = np.asarray(gpu_s, dtype=float)
    hidden = np.maximum(0.0, serving.host_s - gpu) if deployment.overlaps_host else np.full_like(gpu, serving.host_s)
    return hidden + (serving.round_overhead_s if speculating else 0.0)


def launch_bound_s(deployment: Deployment, layer_count: int, tokens: Any, batch: Any, query_tokens: Any, gpu_s: Any) -> FloatArray:
    """Seconds by which launching every kernel from the host takes longer than running it; 0 inside a graph.

    Engines capture graphs up to a number of tokens; a batch beyond it, or a deployment without graphs, runs eagerly.
    """
    floor = deployment.serving.eager_layer_s * layer_count
    beyond = np.asarray(tokens) > deployment.serving.graph_ceiling(deployment.gpu, batch, query_tokens) if deployment.graphs else True
    return np.where(beyond, np.maximum(0.0, floor - np.asarray(gpu_s, dtype=float)), 0.0)
