"""What each drafter brings and costs, and what it does to the memory of one GPU: the rows of two tables."""

from __future__ import annotations

from dataclasses import dataclass

from specadvisor.ranges import Range


@dataclass(frozen=True, slots=True)
class DrafterRow:
    """Guideline 5: what one drafter brings and costs; tuples run over the stated concurrencies."""

    drafter: str
    kind: str
    acceptance_length: Range
    acceptance_source: str
    draft_share: float
    memory_bytes: float
    kv_bytes_per_token: float
    training: str
    operating: str
    support: str
    availability: str
    best_k: tuple[int, ...]
    speedup: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class MemoryBill:
    """Bytes of one GPU, and what the drafter does to the KV pool.

    ``reserve_bytes``: what the engine keeps free with or without a drafter; ``verify_bytes``: what it sets aside on top to
    verify drafts. ``sequences``: requests of the load's context that fit beside ``k`` drafts each.
    """

    drafter: str
    k: int
    total_bytes: float
    weight_bytes: float
    drafter_bytes: float
    reserve_bytes: float
    verify_bytes: float
    kv_pool_bytes: float
    kv_pool_tokens: float
    kv_pool_tokens_without: float
    sequences: float
    sequences_without: float
