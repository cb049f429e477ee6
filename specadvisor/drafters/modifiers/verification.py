"""Rules of verification and of training that only move the acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from specadvisor.drafters.modifiers.base import Modifier, with_accepted_factor, with_length_factor
from specadvisor.errors import InputError
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.serving import ServingEngine

WITHOUT_PROBABILITIES = ("ngram", "suffix", "rest", "lookahead", "token_recycling")
TRAINED = (
    "draft_model", "eagle", "eagle2", "eagle3", "eagle3_1", "mtp", "medusa", "hydra", "p_eagle", "pard", "dflash", "dflash2",
    "dspark", "domino",
)  # fmt: skip


@dataclass(frozen=True)
class LengthFactor(Modifier):
    """Multiplies the acceptance length at the draft length of the source, ``at_k``, by ``factor``, the published mean.

    ``low``/``high`` are its range. ``kept``: first positions whose acceptance stays.
    """

    sampled_only: ClassVar[bool] = False
    kept: ClassVar[int] = 0

    @property
    def factor(self) -> float:
        return float(self.facts.shape["factor"])

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        share = min(1.0, max(0.0, temperature)) if self.sampled_only else 1.0
        factor = 1.0 + (self.factor - 1.0) * share
        return with_length_factor(survival, factor, int(self.facts.shape["at_k"]), self.kept)

    def changes_output(self, temperature: float) -> bool:
        return self.lossy and (temperature > 0 or not self.sampled_only)


@dataclass(frozen=True)
class BlockVerification(LengthFactor):
    """Block verification (2403.10444): accepts the block jointly instead of token by token; lossless.

    AL * 1.083 on average at 8 drafts and T = 1, nothing at T = 0 (linear in between, our assumption). A block of one draft is
    one token: the first position keeps its acceptance.
    """

    id = "block-verification"
    excludes = "rule"
    sampled_only = True
    kept = 1

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """It needs the drafter's probabilities along one chain."""
        if drafter.tree:
            return "block-verification is defined on chains; on trees its kin is traversal-verification"
        if drafter.kind in WITHOUT_PROBABILITIES:
            return f"block-verification needs draft probabilities, {drafter.kind} has none"
        return None


@dataclass(frozen=True)
class TraversalVerification(LengthFactor):
    """The same idea on trees (Traversal, UniVer, HSD): +2-8% AL at T = 1, nothing at T = 0."""

    id = "traversal-verification"
    excludes = "rule"
    sampled_only = True

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """Trees only."""
        return None if drafter.tree else "traversal-verification is defined on trees; add a tree"


@dataclass(frozen=True)
class VariationalTraining(LengthFactor):
    """Variational speculative decoding (2602.05774): a training objective on sequence acceptance; run-time cost unchanged."""

    id = "variational-training"

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """Only what is trained can be trained otherwise."""
        return None if drafter.kind in TRAINED else f"{drafter.kind} is not trained"


@dataclass(frozen=True)
class JudgeDecoding(Modifier):
    """Judge decoding (2501.19309), AutoJudge: a small head on target states accepts mismatches that do not matter.

    Lossy. Accepted drafts * 1.5 in long windows (AutoJudge's upper figure; 405B with an 8B drafter printed 20 against 6), less
    at few drafts, where little is left to accept. Head: 16.4 k weights.
    """

    id = "judge-decoding"
    excludes = "rule"
    lossy = True

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        numbers = self.facts.shape
        return with_accepted_factor(survival, float(numbers["accepted_factor"]), int(numbers["at_k"]))


@dataclass(frozen=True)
class TypicalAcceptance(LengthFactor):
    """Typical acceptance (2401.10774): accept if p(x) > min(eps, delta * exp(-H(p))). Lossy at T > 0, exact match at T = 0.

    No gain is assumed: vLLM users measured it below rejection sampling (issue 8639).
    """

    id = "typical-acceptance"
    excludes = "rule"
    lossy = True
    sampled_only = True


@dataclass(frozen=True)
class RelaxedAcceptance(LengthFactor):
    """Relaxed acceptance in the thinking phase (TensorRT-LLM, MTP; SGLang's thresholds below 1). Lossy.

    R1 with MTP-3, top 10, delta 0.6: 2.16x -> 2.33x.
    """

    id = "relaxed-acceptance"
    excludes = "rule"
    lossy = True

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """TensorRT-LLM relaxes MTP only."""
        if serving.id == "tensorrt_llm" and drafter.kind != "mtp":
            return "tensorrt_llm relaxes the acceptance of mtp only"
        return None


@dataclass(frozen=True)
class Combined(LengthFactor):
    """Two drafters, the free one first: n-gram or suffix where it matches, the other where it does not.

    AL * 1.05 over the stronger of the two: Arctic LSTM + suffix, 172 -> 179 (ShareGPT), 203 -> 217 (HumanEval), 294 -> 302
    tok/s (SWE-Bench). The model's passes still run: a batch rarely matches as a whole.
    """

    id = "combine"
    takes = "ngram or suffix, such as combine=ngram"

    def check(self, drafter: Drafter) -> None:
        if self.value not in ("ngram", "suffix"):
            raise InputError("combine", self.value, "ngram, suffix")

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """A lookup drafter adds nothing to another lookup drafter."""
        return f"{drafter.kind} is a lookup drafter itself" if drafter.kind in WITHOUT_PROBABILITIES else None
