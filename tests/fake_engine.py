"""A serving engine with round numbers, so that costs can be counted by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specadvisor.serving.attention import AttentionBackend
from specadvisor.serving.facts import Support
from specadvisor.serving.slots import StateRule


@dataclass(frozen=True)
class FakeEngine:
    """Graphs for every batch up to ``ceiling_tokens``, no padding, one attention kernel, every drafter."""

    id: str = "vllm"
    version: str = "0.33.0"
    host_s: float = 0.0
    host_overlap: bool = True
    round_overhead_s: float = 1.0e-3
    draft_pass_s: float = 1.0e-4
    draft_layer_launch_s: float = 1.0e-5
    floor_scale: float = 0.3
    eager_layer_s: float = 0.0
    sampling_passes: float = 4.0
    prefill_efficiency: float = 0.5
    memory_fraction: float = 0.9
    reserve_bytes: float = 0.0
    verify_logit_copies: float = 0.0
    kv_block: int = 16
    states: StateRule = field(default_factory=StateRule)
    requests: float = 1024.0
    pad_to: float = 1.0
    ceiling_tokens: float = np.inf
    tile_rows: tuple[int, ...] = (64, 128)
    unsupported: frozenset[str] = field(default_factory=frozenset)

    def supports(self, kind: str) -> Support:
        return Support(kind not in self.unsupported, method=kind)

    def attention_backend(self, gpu: Any, head_dim: float, mla: bool = False, **_: Any) -> AttentionBackend:
        return AttentionBackend("fake", self.tile_rows, source="test")

    def graph_tokens(self, batch: Any, query_tokens: Any, *_: Any, **__: Any) -> Any:
        return np.ceil(np.asarray(batch, float) / self.pad_to) * self.pad_to * query_tokens

    def graph_ceiling(self, gpu: Any, batch: Any, query_tokens: Any, *_: Any, **__: Any) -> Any:
        return np.full(np.broadcast(batch, query_tokens).shape, self.ceiling_tokens)

    def max_requests(self, *_: Any, **__: Any) -> float:
        return self.requests
