"""Output head and sampling: they run on every verified position."""

from __future__ import annotations

from typing import Any

import numpy as np

from specadvisor import kernels
from specadvisor.model.architecture import Linear
from specadvisor.ranges import FloatArray
from specadvisor.step.deployment import Deployment
from specadvisor.step.layers import all_reduce_s, gemms_s
from specadvisor.step.time import StepTime

LOGIT_BYTES = 4.0


def head_time(deployment: Deployment, head: Linear, rows: Any, *, tp: int | None = None) -> StepTime:
    """Seconds of the vocabulary projection of ``rows`` positions, split over the vocabulary under tensor parallelism.

    The gather of the logits moves half of what an all-reduce of the same size moves.
    """
    ranks = deployment.tp if tp is None else tp
    time = StepTime({"head": gemms_s(deployment, [head], rows, ranks, deployment.floor_scale)})
    if ranks > 1 and head.shard != "replicated":
        time = time.plus("collective", all_reduce_s(deployment, rows, head.out_features / 2, ranks))
    return time


def sampling_time(deployment: Deployment, rows: Any, vocab: int) -> StepTime:
    """Seconds of the passes over ``rows`` x ``vocab`` 4-byte logits (softmax, filtering, arg-max, rejection).

    Their number is a property of the engine's sampler (``ServingEngine.sampling_passes``).
    """
    logits: FloatArray = np.asarray(rows, dtype=float) * vocab * LOGIT_BYTES
    return StepTime({"sampling": deployment.serving.sampling_passes * kernels.memory_pass_s(deployment.running_gpu, logits)})
