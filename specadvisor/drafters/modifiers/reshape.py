"""Modifiers that reshape the drafter: attention window, weight format, tensor parallelism."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specadvisor.drafters.engines import in_format
from specadvisor.drafters.modifiers.base import Modifier, whole_number, with_length_factor
from specadvisor.drafters.parts import layers_with_window
from specadvisor.errors import InputError
from specadvisor.formats import weight_format
from specadvisor.ranges import FloatArray

if TYPE_CHECKING:
    from specadvisor.drafters.base import Drafter
    from specadvisor.serving import ServingEngine


@dataclass(frozen=True)
class DraftWindow(Modifier):
    """The drafter's attention sees the last ``value`` keys: Lay(d, n, min(S, W)).

    Within the window nothing changes. Beyond the trained context it wins back a part (``recovers``) of the lost acceptance:
    EAGLE-3 on Qwen3-30B-A3B, LongBench 1.34 -> 1.88, GSM8K 2.434 -> 2.424.
    """

    id = "draft-window"
    takes = "keys, such as draft-window=2048"

    def check(self, drafter: Drafter) -> None:
        if not 16 <= (whole_number(self.value) or 0) < 2**31:
            raise InputError("draft-window", self.value, "a number of keys, 16 or more")
        if drafter.kv_bytes_per_token == 0:
            raise InputError("draft-window", drafter.kind, "a drafter with attention over a cache of its own")

    def drafter(self, drafter: Drafter) -> Drafter:
        return replace(drafter, layers=layers_with_window(drafter.layers, int(self.value)))


@dataclass(frozen=True)
class DraftFormat(Modifier):
    """The drafter's own matrices in another format (Meta: INT4 feed-forward; Edge-LLM: fp8, int4, nvfp4 drafters).

    Bytes scale with the format. Acceptance: unchanged at 8 bits, AL * 0.98 at 4 (our assumption: the loss is reported as
    small, not as a number).
    """

    id = "draft-format"
    takes = "a weight format, such as draft-format=fp8"

    def check(self, drafter: Drafter) -> None:
        weight_format(self.value)
        if not drafter.layers and not drafter.extra and not drafter.step_linears:
            raise InputError("draft-format", self.value, f"a drafter with weights; {drafter.kind} has none")

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """Two independent logs show 0% acceptance of NVFP4-quantised MTP heads."""
        if drafter.kind == "mtp" and weight_format(self.value).compute == "fp4":
            return "MTP heads in 4-bit floating point were seen to accept nothing; keep them in bf16 or fp8"
        return None

    def drafter(self, drafter: Drafter) -> Drafter:
        changed = in_format(drafter, weight_format(self.value).id)
        if drafter.owns_head and drafter.head:
            changed = replace(changed, head=replace(drafter.head, format=weight_format(self.value).id))
        return changed

    def survival(self, survival: FloatArray, drafter: Drafter, *, workload: str, temperature: float) -> FloatArray:
        small, numbers = weight_format(self.value).bytes_per_weight < 0.9, self.facts.shape
        return with_length_factor(survival, float(numbers["four_bit_factor"]), int(numbers["at_k"])) if small else survival


@dataclass(frozen=True)
class HeadFormat(Modifier):
    """A quantised copy of the draft head (vLLM ``draft_lm_head_quantization``; Arctic: FP8 up to batch 32)."""

    id = "head-format"
    takes = "fp8 or nvfp4, such as head-format=fp8"

    def check(self, drafter: Drafter) -> None:
        if drafter.head is None:
            raise InputError("head-format", self.value, f"a drafter with an output head; {drafter.kind} has none")
        weight_format(self.value)

    def legality(self, drafter: Drafter, serving: ServingEngine) -> str | None:
        """vLLM quantises its copy of the target's head; a drafter that brings one of its own stops the server."""
        if serving.id == "vllm" and drafter.head and drafter.head.name != drafter.model.head.name:
            return f"vllm quantises the head that a drafter shares with the target; {drafter.kind} has one of its own"
        return None

    def drafter(self, drafter: Drafter) -> Drafter:
        assert drafter.head is not None
        return replace(drafter, head=replace(drafter.head, format=weight_format(self.value).id), owns_head=True)


@dataclass(frozen=True)
class DraftTensorParallel(Modifier):
    """The drafter on its own number of ranks: 1 saves its collectives, and holds all its weights on one GPU."""

    id = "draft-tp"
    takes = "1, or the target's tensor parallelism, such as draft-tp=1"

    def check(self, drafter: Drafter) -> None:
        if not whole_number(self.value):
            raise InputError("draft-tp", self.value, "a number of ranks, 1 or the target's")

    def drafter(self, drafter: Drafter) -> Drafter:
        return replace(drafter, draft_tp=int(self.value))
