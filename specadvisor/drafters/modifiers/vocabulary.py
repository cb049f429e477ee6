"""Smaller draft heads: a fixed subset of the vocabulary, or one chosen at every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.drafters.modifiers.base import Modifier
from specadvisor.errors import InputError
from specadvisor.model.architecture import Linear
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter


REDUCED_HEAD = "reduced_head"


@dataclass(frozen=True)
class DraftVocabulary(Modifier):
    """FR-Spec (2502.14856) and VocabTrim (2506.22694): the head keeps the V' most frequent rows; verification is unchanged.

    Price: head(B, V'), and h x V' more bytes where the head was the target's. Acceptance: a drafted token must be inside V',
    so s_j -> s_j * coverage ** j. Coverage of the output by V' comes from SPEED-Bench Table 14 (gpt-oss outputs), by
    workload; the rule gives -5.9% AL at 32k and a flat 0.75 over three drafts, against 5.5% measured on average.
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
        if not self.value.isdigit() or not 256 <= self.rows <= head.out_features:
            raise InputError("draft-vocab", self.value, f"whole rows from 256 to {head.out_features} for {drafter.name}")

    def drafter(self, drafter: Drafter) -> Drafter:
        assert drafter.head is not None
        if self.rows == drafter.head.out_features:
            note = f"draft-vocab={self.rows}: the head of {drafter.name} has that many rows already, nothing changes."
            return replace(drafter, assumptions=(*drafter.assumptions, note))
        head = replace(drafter.head, name=REDUCED_HEAD, out_features=self.rows)
        return replace(drafter, head=head, owns_head=True)

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        if drafter.head is None or drafter.head.name != REDUCED_HEAD:
            return survival
        positions = np.arange(1, np.shape(survival)[-1] + 1)
        return np.asarray(survival * self.coverage(workload, drafter.model.vocab) ** positions)

    def coverage(self, workload: str, vocab: int) -> float:
        """Share of output tokens inside the kept rows, linear in log2(rows) between the published sizes and 1 at ``vocab``."""
        table = self.facts.shape["coverage"]
        shares = table.get(workload, table["other"])
        sizes = np.log2([*table["rows"], max(vocab, table["rows"][-1] + 1)])
        values = np.array([*shares, 1.0])
        size = np.log2(self.rows)
        if size < sizes[0]:
            slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
            return float(max(0.1, values[0] - slope * (sizes[0] - size)))
        return float(np.interp(size, sizes, values))


@dataclass(frozen=True)
class SpeculativeVocabulary(Modifier):
    """SpecVocab (SamsungLabs): a low-rank ranker (d' = h/8) picks 2,048 rows per step.

    Price: bytes h*d' + d'*V + 2048*h per step (Qwen3-8B: 88 M elements against 622 M full, 131 M at 32k). The published
    throughput gain over EAGLE-3 with 32k rows is 4-8%; its acceptance is taken as that of the full vocabulary.
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
        return replace(drafter, head=replace(head, name="chosen_rows", out_features=read), owns_head=False, extra=resident)
