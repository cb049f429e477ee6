"""Smaller draft heads: a fixed subset of the vocabulary, or one chosen at every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.acceptance.workloads import parse_mix
from specadvisor.drafters.facts import modifier_facts
from specadvisor.drafters.modifiers.base import Modifier, conditionals, whole_number
from specadvisor.errors import InputError
from specadvisor.model.architecture import Linear
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter


@dataclass(frozen=True)
class DraftVocabulary(Modifier):
    """FR-Spec (2502.14856) and VocabTrim (2506.22694): the head keeps the V' most frequent rows; verification is unchanged.

    Price: head(B, V'), and h x V' more bytes where the head was the target's. Acceptance: a drafted token must be inside V',
    so s_j -> s_j * (coverage(V') / coverage(rows that the head had)) ** j: what those rows missed is in the acceptance
    already. Coverage of the output comes from SPEED-Bench Table 14 (gpt-oss outputs), by workload; the rule gives -5.9% AL at
    32k of a whole vocabulary and a flat 0.75 over three drafts, against 5.5% measured on average.
    """

    id = "draft-vocab"
    excludes = "head rows"
    takes = "rows of the draft head, such as draft-vocab=32000"

    @property
    def rows(self) -> int:
        return int(self.value)

    def check(self, drafter: Drafter) -> None:
        head = drafter.head
        if head is None:
            raise InputError("draft-vocab", self.value, f"a drafter with an output head; {drafter.kind} has none")
        if not 256 <= (whole_number(self.value) or 0) <= head.out_features:
            raise InputError("draft-vocab", self.value, f"whole rows from 256 to {head.out_features} for {drafter.name}")

    def drafter(self, drafter: Drafter) -> Drafter:
        assert drafter.head is not None
        if self.rows == drafter.head.out_features:
            note = f"draft-vocab={self.rows}: the head of {drafter.name} has that many rows already, nothing changes."
            return replace(drafter, assumptions=(*drafter.assumptions, note))
        head = replace(drafter.head, name="reduced_head", out_features=self.rows)
        return replace(drafter, head=head, owns_head=True, head_rows=drafter.head.out_features)

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        if not drafter.head_rows:
            return survival
        vocab = drafter.model.vocab
        kept = coverage(self.rows, workload, vocab) / coverage(drafter.head_rows, workload, vocab)
        return np.asarray(survival * kept ** np.arange(1, np.shape(survival)[-1] + 1))


def coverage(rows: int, workload: str, vocab: int) -> float:
    """Share of output tokens inside the ``rows`` most frequent ones of ``vocab``, by workload or mix of workloads.

    Linear in log2(rows) between the sizes of SPEED-Bench Table 14 below ``vocab`` and 1 there.
    """
    table = modifier_facts()["draft-vocab"].shape["coverage"]
    smaller = sum(size < vocab for size in table["rows"])
    if rows >= vocab or not smaller:
        return 1.0
    sizes = np.log2([*table["rows"][:smaller], vocab])
    size, total = np.log2(rows), 0.0
    for name, share in parse_mix(workload).items():
        values = np.array([*table.get(name, table["other"])[:smaller], 1.0])
        if size < sizes[0]:
            slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
            total += share * max(0.1, values[0] - slope * (sizes[0] - size))
        else:
            total += share * np.interp(size, sizes, values)
    return float(total)


@dataclass(frozen=True)
class SpeculativeVocabulary(Modifier):
    """SpecVocab (SamsungLabs): a low-rank ranker (d' = h/8) picks 2,048 rows per step.

    Price: bytes h*d' + d'*V + 2048*h per step (Qwen3-8B: 88 M elements against 622 M full, 131 M at 32k). Acceptance: that of
    the full vocabulary, so each conditional over the coverage of the rows that the head had, at most 1. The published
    throughput gain over EAGLE-3 with 32k rows is 4-8%.
    """

    id = "spec-vocab"
    excludes = "head rows"

    ROWS = 2048

    def check(self, drafter: Drafter) -> None:
        if drafter.head is None:
            raise InputError("spec-vocab", drafter.kind, "a drafter with an output head")

    def drafter(self, drafter: Drafter) -> Drafter:
        head = drafter.head
        assert head is not None
        hidden, rank = head.in_features, head.in_features // 8
        read = (hidden * rank + rank * drafter.model.vocab) // hidden + self.ROWS
        ranker = (
            Linear("ranker_in", hidden, rank, shard="replicated"),
            Linear("ranker_out", rank, drafter.model.vocab),
        )
        full = replace(head, out_features=drafter.model.vocab)
        resident = (*drafter.extra, *ranker, full) if drafter.owns_head else (*drafter.extra, *ranker)
        chosen = replace(head, name="chosen_rows", out_features=read)
        return replace(drafter, head=chosen, owns_head=False, extra=resident, head_rows=head.out_features)

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        seen = coverage(drafter.head_rows, workload, drafter.model.vocab)
        return np.asarray(np.cumprod(np.minimum(conditionals(survival) / seen, 1.0), axis=-1))
