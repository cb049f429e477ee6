"""A drafter: what one speculation round runs beside the target's verification, and what stays in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.drafters.facts import Facts, drafter_facts, engine_facts, tree_engines
from specadvisor.drafters.parts import Shape
from specadvisor.drafters.round import Load, Round
from specadvisor.drafters.tree import Tree, tree_survival
from specadvisor.errors import InputError
from specadvisor.formats import KV_BYTES, weight_format
from specadvisor.model.architecture import Architecture, Attention, Layer, Linear, Recurrent
from specadvisor.model.sharding import layer_on_rank
from specadvisor.ranges import FloatArray
from specadvisor.serving import version_key
from specadvisor.step.layers import linear_time
from specadvisor.step.target import target_step
from specadvisor.step.time import StepTime

# What the answer says of a technique that nobody serves.
NO_ENGINE = "in no serving engine yet; priced as published"

if TYPE_CHECKING:
    from specadvisor.drafters.modifiers.base import Modifier
    from specadvisor.serving import ServingEngine
    from specadvisor.step.deployment import Deployment


@dataclass(frozen=True, kw_only=True)
class Drafter:
    """Base of every family. Subclasses set ``kind`` and implement ``draft``.

    ``layers`` are the drafter's own, ``inputs`` run on rows that carry target features, ``step_linears`` on every row of
    every pass, ``extra`` are further resident matrices. ``head`` is what a drafting pass projects with; it is resident
    only where ``owns_head``; ``head_rows`` are those of the head that its acceptance was measured with, where a modifier
    gave it another (0: ``head`` is that one). ``writes_ahead``: a drafting pass writes keys and values past the last token.
    ``lookup``: it copies text that it finds, or proposes nothing. ``temperature``: the sampling it is asked about.
    ``ranks``/``kv_format`` describe the deployment it was bound to (``on``). A subclass without fields of its own needs no
    second ``dataclass`` decorator, which would cost 2 ms of every start.
    """

    kind: ClassVar[str]
    lookup: ClassVar[bool] = False
    needs_target_states: ClassVar[bool] = True
    writes_ahead: ClassVar[bool] = True

    name: str
    model: Architecture = field(repr=False)
    shape: Shape | None = None
    layers: tuple[Layer, ...] = ()
    inputs: tuple[Linear, ...] = ()
    step_linears: tuple[Linear, ...] = ()
    extra: tuple[Linear, ...] = ()
    head: Linear | None = None
    owns_head: bool = False
    head_rows: int = 0
    copies: int = 1
    embedding_parameters: int = 0
    k_max: int = 16
    k_multiple: int = 1
    draft_tp: int = 0
    tree: Tree | None = None
    assumptions: tuple[str, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    ranks: int = 1
    kv_format: str = ""
    from_file: bool = False
    temperature: float = 0.0

    # --- cost of a round -------------------------------------------------------------------------------------------

    def round(
        self, deployment: Deployment, batch: Any, k: Any, context: Any, accepted: Any, survival: FloatArray | None = None
    ) -> Round:
        """Cost of one round of ``k`` >= 1 drafts for ``batch`` sequences on ``context`` keys.

        ``accepted``: mean tokens emitted by the last round (its AL): rows of the catch-up pass. ``survival``: s_1..s_kmax,
        needed only by modifiers that choose what to verify. All arguments broadcast.
        """
        load = Load(*(np.asarray(value, dtype=float) for value in (batch, k, context, accepted)))
        result = self.draft(self.placed(deployment), load)
        serving = deployment.serving
        result = replace(result, round_overhead_s=np.asarray(serving.round_overhead_s, dtype=float))
        if self.rolls_back_states(serving):
            again = target_step(deployment, load.batch, load.accepted, load.context, host=False)
            result = replace(result, draft=result.draft + again)
        for modifier in self.modifiers:
            result = modifier.round(result, self, deployment, load, survival)
        return result

    def draft(self, deployment: Deployment, load: Load) -> Round:
        """The family's own part of ``round``; ``deployment`` has the drafter's tensor parallelism."""
        raise NotImplementedError

    def placed(self, deployment: Deployment) -> Deployment:
        """The deployment as the drafter's passes see it: its own tensor parallelism where that differs."""
        if not self.draft_tp or self.draft_tp == deployment.tp:
            return deployment
        return replace(deployment, tp=self.draft_tp, ep=1, model=replace(self.model, layers=()))

    def allowed_k(self) -> tuple[int, ...]:
        """Numbers of draft tokens the drafter takes: beyond the modules of a checkpoint only multiples of them (vLLM)."""
        return tuple(k for k in range(1, self.k_max + 1) if k <= self.k_multiple or k % self.k_multiple == 0)

    def scheduled(self, deployment: Deployment) -> Deployment:
        """The deployment as its host schedules it with this drafter, where the user does not say otherwise."""
        rule = engine_facts()["without_overlap"].get(deployment.serving.id)
        if deployment.async_scheduling is not None or not rule or self.kind not in rule["kinds"]:
            return deployment
        old = "until" not in rule or version_key(deployment.serving.version) < version_key(rule["until"])
        return replace(deployment, async_scheduling=False) if old else deployment

    def rolls_back_states(self, serving: ServingEngine) -> bool:
        """True where the engine restores a snapshot and runs the accepted tokens again through a target with states.

        llama.cpp with an external draft model on hybrid targets: published at 0.14-0.41x; built-in heads and block drafters
        are free of it.
        """
        hybrid = any(isinstance(la.mixer, Recurrent) for la in self.model.layers)
        facts = engine_facts()["rollback_by_replay"]
        return hybrid and self.kind in facts["kinds"] and serving.id in facts["engines"]

    def catch_up_rows(self, serving: ServingEngine, k: FloatArray, accepted: FloatArray) -> FloatArray:
        """Rows per sequence of the pass that brings the drafter's cache up to date: accepted tokens, or k + 1 where padded."""
        padded = serving.id in engine_facts()["padded_catch_up"]["engines"]
        return k + 1.0 if padded else accepted

    @staticmethod
    def launches(deployment: Deployment, passes: Any, layers: Any) -> StepTime:
        """Host time that drafting passes and their layers expose."""
        serving = deployment.serving
        seconds = np.asarray(passes, float) * serving.draft_pass_s + np.asarray(layers, float) * serving.draft_layer_launch_s
        return StepTime({"host": seconds})

    @property
    def layer_count(self) -> int:
        return sum(layer.count for layer in self.layers)

    # --- memory ----------------------------------------------------------------------------------------------------

    def on(self, deployment: Deployment) -> Drafter:
        """This drafter with the memory figures of one rank of ``deployment``.

        Raises ``InputError`` for a draft tensor parallelism that is neither 1 nor the target's (vLLM takes no other).
        """
        if self.draft_tp not in (0, 1, deployment.tp):
            raise InputError("draft-tp", self.draft_tp, f"1 or the target's tensor parallelism, {deployment.tp}")
        return replace(self, ranks=self.draft_tp or deployment.tp, kv_format=deployment.kv_format)

    @property
    def resident_bytes(self) -> float:
        """Weights of its own on one rank; embedding and head that are shared with the target do not count."""
        size = sum(la.count * layer_on_rank(la, self.ranks, self.ranks) for la in self.layers)
        linears = [*self.inputs, *self.step_linears]
        size += sum(m.weight_bytes * m.share(self.ranks) for m in linears)
        size *= self.copies
        size += sum(m.weight_bytes * m.share(self.ranks) for m in self.extra)
        if self.owns_head and self.head:
            size += self.head.weight_bytes * self.head.share(self.ranks)
        return size + self.embedding_parameters * weight_format("bf16").bytes_per_weight / self.ranks

    @property
    def kv_bytes_per_token(self) -> float:
        """Cache of its own per token of context on one rank (windowed layers included, as below their window)."""
        element = KV_BYTES[self.kv_format or self.model.kv_format]
        total = 0.0
        for layer in self.layers:
            mixer = layer.mixer
            if mixer is None or isinstance(mixer, Recurrent):
                continue
            total += layer.count * mixer.kv_elements_per_token * mixer.kv_share(self.ranks) * element
        return total * self.copies

    @property
    def state_bytes_per_sequence(self) -> float:
        """Recurrent state of a hybrid drafter."""
        mixers = [(la.count, la.mixer) for la in self.layers if isinstance(la.mixer, Recurrent)]
        return sum(count * (m.state_bytes + m.conv_state_bytes) for count, m in mixers) / self.ranks

    def verified_drafts(self, k: Any) -> FloatArray:
        """Most draft tokens that the target's pass checks beside the last accepted one: ``k``, or a tree's nodes."""
        drafts = np.asarray(k, dtype=float)
        return self.tree.verified(drafts) - 1.0 if self.tree else drafts

    def drafting_positions(self, k: Any) -> FloatArray:
        """Positions of a sequence that a drafting pass writes: ``k``, a tree's beam at every step; 0 without such a pass."""
        beam = self.tree.topk if self.tree and not self.tree.best_first else 1
        return np.asarray(k, dtype=float) * float(beam if self.writes_ahead else 0)

    def held_slots(self, serving: ServingEngine, k: Any) -> FloatArray:
        """KV slots that a running sequence holds beyond its accepted tokens, by the engine's rule."""
        return serving.held_slots(self.verified_drafts(k), self.drafting_positions(k))

    @property
    def prefill_parameters(self) -> float:
        """Parameters that each prompt token runs through beside the target's: 2 FLOP each."""
        return float(sum(la.count * la.active_parameters for la in self.layers) + sum(m.parameters for m in self.inputs))

    def drafter_prefill_s(self, deployment: Deployment, input_tokens: Any) -> FloatArray:
        """Seconds that reading a prompt takes longer with this drafter (matrices at the prefill efficiency)."""
        tokens = np.asarray(input_tokens, dtype=float)
        peak = deployment.gpu.peak("bf16") * deployment.serving.prefill_efficiency
        read = linear_time(deployment, self.inputs, np.ones(())).total_s if self.inputs else np.zeros(())
        return np.maximum(2.0 * self.prefill_parameters / self.ranks * tokens / peak, read)

    # --- acceptance, legality, facts -------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        return drafter_facts(self.kind)

    @property
    def lossy(self) -> bool:
        """True where a modifier changes the distribution of the output at this ``temperature``."""
        return any(modifier.changes_output(self.temperature) for modifier in self.modifiers)

    @property
    def acceptance_kind(self) -> str:
        """The kind whose published acceptance holds for this drafter."""
        return self.kind

    @property
    def weights_of(self) -> tuple[str, ...]:
        """The kinds whose published weights it can run."""
        return (self.kind,)

    @property
    def trained_context(self) -> int | None:
        """Tokens of context that its config says it was trained on; None where it states none, or copies the target's."""
        stated = self.shape.trained_context if self.shape else 0
        copied = not (self.shape and self.shape.rope_scaled) and 0 < self.model.max_context <= stated
        return None if copied else stated or None

    def keys_seen(self, context: ArrayLike) -> FloatArray:
        """Keys that its attention reads at ``context`` (any shape): all of them, unless every layer has a window."""
        windows = [la.mixer.window for la in self.layers if isinstance(la.mixer, Attention)]
        return np.minimum(np.asarray(context, dtype=float), float(max(windows)) if windows and all(windows) else np.inf)

    def survival(self, survival: FloatArray, *, workload: str = "mixed", temperature: float = 0.0) -> FloatArray:
        """s_1..s_kmax after the effect of the tree and the modifiers (a tree returns one entry per level)."""
        result = np.asarray(survival, dtype=float)
        if self.tree:
            result = tree_survival(result, self.tree)
        for modifier in self.modifiers:
            result = modifier.survival(result, self, workload=workload, temperature=temperature)
        return result

    def legality(self, model: Architecture, serving: ServingEngine) -> str | None:
        """None if this drafter can run for ``model`` on ``serving``, else the reason in one sentence."""
        support = serving.supports(self.kind)
        if not support.supported and not self.facts.research:
            return f"{serving.id} does not run {self.kind} ({support.note})"
        if self.tree and serving.id not in tree_engines(self.tree):
            return f"{serving.id} verifies chains; such trees run on {', '.join(tree_engines(self.tree))}"
        for modifier in self.modifiers:
            if reason := modifier.legality(self, serving):
                return reason
        return self.mismatch(model)

    @property
    def shares_vocabulary(self) -> bool:
        """Whether a drafted token id means the same token to the target; False: the engine has to translate."""
        return True

    def not_shipped(self, serving: ServingEngine) -> tuple[str, ...]:
        """One sentence for each part that is priced as published though ``serving`` cannot run it; empty where it runs."""
        family = (f"{self.kind} is {NO_ENGINE}",) if self.facts.research else ()
        return (*family, *(text for modifier in self.modifiers if (text := modifier.note(serving))))

    def mismatch(self, model: Architecture) -> str | None:
        """None if the drafter's shapes go with ``model``, else what does not."""
        if self.shape and self.needs_target_states and self.shape.target_hidden != model.hidden:
            return f"{self.name} reads hidden states of width {self.shape.target_hidden}, {model.name} has {model.hidden}"
        return None

    def with_modifiers(self, modifiers: Iterable[Modifier]) -> Drafter:
        """This drafter with ``modifiers`` applied in order: each may reshape it, reprice its round, move its acceptance."""
        result: Drafter = self
        for modifier in modifiers:
            for other in result.modifiers:
                if modifier.id == other.id or (modifier.excludes and modifier.excludes == other.excludes):
                    raise InputError("modifier", str(modifier), f"one of its sort; {other} is there already")
            modifier.check(result)
            result = modifier.drafter(result)
            result = replace(result, modifiers=(*result.modifiers, modifier), name=f"{result.name} + {modifier}")
        return result
