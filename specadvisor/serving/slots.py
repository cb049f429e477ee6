"""KV slots and recurrent states that a running request holds beyond its accepted tokens, by the engine's own rule.

A round verifies ``verified`` draft tokens and its drafting pass writes ``drafting`` positions past them (both from the
drafter). Sources: vLLM 0.33.0 (config/vllm.py ``num_lookahead_tokens``, scheduler.py ``_spec_decode_step_blocks``), SGLang
0.5.23 (mem_cache/allocation_sizing.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specadvisor.ranges import FloatArray


@dataclass(frozen=True, slots=True)
class StateRule:
    """Copies of the recurrent state that a request holds: ``kept`` (``kept_speculating`` with speculation) and one for each
    draft token. ``pool_share``: part of the pool set aside for states, 0 where caches and states share it freely; ``option``
    moves it.
    """

    kept: float = 1.0
    kept_speculating: float = 1.0
    pool_share: float = 0.0
    option: str = ""
    source: str = ""

    def copies(self, k: Any, speculating: bool) -> FloatArray:
        return (self.kept_speculating if speculating else self.kept) + np.asarray(k, dtype=float)


def held_slots(rules: Mapping[str, Any], verified: Any, drafting: Any) -> FloatArray:
    """Slots beyond those of plain decoding, which holds the token it computes.

    ``vllm``: the drafts in the target's pass and the positions that the next drafts are written to. ``sglang``: two rounds,
    since the overlapped scheduler learns one step late what was accepted; a round takes the verified tokens (the root
    included) or the drafter's rows, whichever are more. ``verified``: the drafts only.
    """
    drafts = np.asarray(verified, dtype=float)
    if rules["kind"] == "vllm":
        return np.asarray(drafts + drafting)
    if rules["kind"] == "sglang":
        return np.asarray(2.0 * np.maximum(drafts + 1.0, drafting) - 1.0)
    return drafts
