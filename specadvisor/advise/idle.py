"""What a server pays for a drafter that is loaded but not used: memory, and the pass that keeps its cache in step."""

from __future__ import annotations

import numpy as np

from specadvisor.drafters import Drafter
from specadvisor.drafters.dflash import BlockDrafter
from specadvisor.ranges import FloatArray
from specadvisor.step import Deployment, Memory, layers_time, linear_time


def held_bytes(plain: Memory, loaded: Memory) -> float:
    """Bytes of one GPU that a loaded drafter takes from the target's cache: weights, what is set aside to verify drafts, and
    the share of the pool that its own cache fills.
    """
    per_token = loaded.kv_bytes_per_token + loaded.drafter_kv_bytes_per_token
    own = loaded.kv_pool_bytes * loaded.drafter_kv_bytes_per_token / per_token if per_token else 0.0
    return plain.kv_pool_bytes - loaded.kv_pool_bytes + own


def idle_cost_s(deployment: Deployment, drafter: Drafter, batch: FloatArray, context: FloatArray) -> FloatArray:
    """Seconds per step that a loaded drafter costs at k = 0: it reads each new token to keep its cache in step::

        block drafters   fusion + K,V projections, on the new token of each sequence
        others           fusion + their layers, on the new token of each sequence; no head, no sampling

    Drafters without a cache of their own cost nothing. Published: 6-20% of TPOT with a drafter loaded but idle; for
    heads and block drafters this pass alone comes to the lower end of that, or less.
    """
    if not drafter.kv_bytes_per_token:
        return np.zeros_like(batch)
    placed = drafter.placed(deployment)
    if isinstance(drafter, BlockDrafter):
        time = linear_time(placed, (*drafter.inputs, *drafter.context_linears), batch)
        return np.asarray((time + drafter.launches(deployment, 1.0, 0.0)).total_s)
    time = layers_time(placed, drafter.layers, batch, 1.0, context)
    matrices = (*drafter.inputs, *drafter.step_linears)
    if matrices:
        time = time + linear_time(placed, matrices, batch)
    return np.asarray((time + drafter.launches(deployment, 1.0, drafter.layer_count)).total_s)
