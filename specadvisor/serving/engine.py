"""A serving engine as the cost model sees it: attention kernels, graph grid, host time, admission, drafter support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specadvisor.errors import InputError
from specadvisor.hardware.gpu import Gpu
from specadvisor.ids import resolve
from specadvisor.ranges import FloatArray
from specadvisor.serving import graphs, slots
from specadvisor.serving.attention import AttentionBackend
from specadvisor.serving.facts import DrafterFacts, Fact, Support, version_key
from specadvisor.serving.slots import StateRule

GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """The backend that runs where compute capability, head size, kind (gqa, mla, sparse) and KV format match."""

    backend: AttentionBackend
    kind: str
    sm_min: int
    sm_max: int
    head_dim_max: int
    kv_formats: tuple[str, ...]

    def matches(self, kind: str, sm: int, head_dim: float, kv_format: str) -> bool:
        return (
            kind == self.kind
            and self.sm_min <= sm <= self.sm_max
            and head_dim <= self.head_dim_max
            and (not self.kv_formats or kv_format in self.kv_formats)
        )


@dataclass(frozen=True)
class ServingEngine:
    """Facts of one engine (``profiles/engines/<id>.toml``), each with its origin in ``facts``. Seconds and bytes.

    ``host_s``: host work of a step, exposed where ``host_overlap`` is False or the GPU is faster. ``round_overhead_s``: per
    speculation round, ``draft_pass_s``: per sequential draft pass, ``draft_layer_launch_s``: per draft layer and pass.
    ``floor_scale``: share of an operator's launch floor left inside a whole-model graph. ``eager_layer_s``: launching one
    layer's kernels from the host. ``sampling_passes``: reads or writes of the 4-byte logits. ``prefill_efficiency``: of the
    peak. ``before``: (version, facts that differ in releases older than it). ``memory_fraction`` of the GPU, less
    ``reserve_bytes``, holds weights and caches; caches come in ``kv_block`` tokens. ``verify_logit_copies``: 4-byte copies
    of the logits of every request that the engine sets aside once it speculates. ``tuned_requests``: the limits on running
    requests and on captured graphs are raised to that many (``tuned``); 0 keeps the engine's defaults. ``kv_formats``: caches
    that it has, its default first; none stated: any. ``counts_budget``: a decode batch has to fit the token budget.
    """

    id: str
    version: str
    versions: str
    host_s: float
    host_overlap: bool
    round_overhead_s: float
    draft_pass_s: float
    draft_layer_launch_s: float
    floor_scale: float
    eager_layer_s: float
    sampling_passes: float
    prefill_efficiency: float
    memory_fraction: float
    reserve_bytes: float
    kv_block: int
    attention: tuple[AttentionRule, ...]
    graph_rules: Mapping[str, Any]
    admission: tuple[Mapping[str, Any], ...]
    token_budgets: tuple[tuple[float, int], ...]
    drafters: Mapping[str, DrafterFacts]
    slot_rules: Mapping[str, Any]
    states: StateRule = field(default_factory=StateRule)
    counts_budget: bool = False
    verify_logit_copies: float = 0.0
    tuned_requests: int = 0
    kv_formats: Sequence[str] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict, repr=False)
    before: tuple[tuple[str, Mapping[str, Fact]], ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    def tuned(self, requests: int) -> ServingEngine:
        """The engine started with the options that ``engines.flags`` writes for ``requests`` at once; 0: its defaults."""
        return replace(self, tuned_requests=requests)

    def attention_backend(
        self, gpu: Gpu, head_dim: float, mla: bool = False, *, sparse: bool = False, kv_format: str = ""
    ) -> AttentionBackend:
        """The kernel that verifies on ``gpu`` at this head size; ``mla``: absorbed latent attention, ``sparse``: top-k."""
        kind = "sparse" if sparse else "mla" if mla else "gqa"
        for rule in self.attention:
            if rule.matches(kind, gpu.sm, head_dim, kv_format):
                return rule.backend
        raise InputError("attention", f"{kind}, head size {head_dim}", f"what {self.id} {self.version} runs on {gpu.id}")

    def graph_tokens(self, batch: Any, query_tokens: Any, gpu: Gpu, max_requests: int | None = None, tp: int = 1) -> FloatArray:
        """Tokens that a decode step of ``batch`` sequences x ``query_tokens`` runs after padding to a captured graph.

        Arrays broadcast. Above the ceiling, and for engines that do not pad, it is batch * query_tokens.
        ``max_requests``: the engine's limit on running requests, if the user sets it.
        """
        count, query = np.broadcast_arrays(np.asarray(batch, dtype=float), np.asarray(query_tokens, dtype=float))
        padded = np.array(count)
        for length in _lengths(query_tokens):
            grid = self._grid(int(length), gpu, max_requests, tp)
            if grid is not None:
                here = np.ceil(query) == length
                padded[here] = graphs.pad(np.ceil(count[here]), grid)
        return padded * query

    def graph_ceiling(
        self, gpu: Gpu, batch: Any, query_tokens: Any, max_requests: int | None = None, tp: int = 1
    ) -> FloatArray:
        """Most tokens that run in a graph at this query length (infinite where the engine has no such limit).

        Has the shape of ``batch`` and ``query_tokens`` broadcast together.
        """
        _, query = np.broadcast_arrays(np.asarray(batch, dtype=float), np.asarray(query_tokens, dtype=float))
        ceiling = np.full(query.shape, np.inf)
        for length in _lengths(query_tokens):
            grid = self._grid(int(length), gpu, max_requests, tp)
            if grid is not None:
                here = np.ceil(query) == length
                ceiling[here] = (grid[-1] if len(grid) else 0.0) * query[here]
        return ceiling

    def max_requests(self, gpu: Gpu, speculating: bool = False) -> int:
        """Requests that run at once by default."""
        limit = next(int(row["requests"]) for row in self.admission if _row_matches(row, gpu, speculating))
        return max(limit, self.tuned_requests)

    def budget_requests(self, gpu: Gpu, kind: str, k: Any) -> FloatArray:
        """Requests that a step's token budget has rows for with ``k`` drafts of this kind each; infinite where none counts.

        With ``tuned_requests`` the budget is raised as well.
        """
        rows = self.budget_rows(kind, k)
        if not self.counts_budget or self.tuned_requests:
            return np.full(rows.shape, np.inf)
        return np.maximum(1.0, self.token_budget(gpu) // rows)

    def token_budget(self, gpu: Gpu) -> int:
        """Tokens that one step may schedule by default."""
        return next(tokens for least_gib, tokens in self.token_budgets if gpu.memory_bytes >= least_gib * GIB)

    def budget_rows(self, kind: str, k: Any, k_max: Any = 0) -> FloatArray:
        """Rows of the token budget that a request takes: 1 + ``k`` verified tokens and what this kind drafts beside them.

        ``k_max``: the longest draft that the server is started for, by which it sizes what drafting takes.
        """
        facts = self.drafters.get(kind, DrafterFacts(method=""))
        verified = 1.0 + np.asarray(k, dtype=float)
        longest = np.maximum(k, k_max)
        if facts.drafts_in_own_pass:
            return np.asarray(np.maximum(verified, 1.0 + longest))
        return np.asarray(verified + facts.rows_per_draft_token * longest + facts.extra_rows)

    def held_slots(self, verified: Any, drafting: Any) -> FloatArray:
        """KV slots that a running request holds beyond its accepted tokens (``slots.held_slots``)."""
        return slots.held_slots(self.slot_rules, verified, drafting)

    def supports(self, drafter_kind: str) -> Support:
        """Whether this version runs that kind of drafter, under which name."""
        kind = resolve("drafter", drafter_kind)
        facts = self.drafters.get(kind)
        if facts is None:
            return Support(False, note=f"{self.id} has no such method")
        mine = version_key(self.version)
        if facts.since and mine < version_key(facts.since):
            return Support(False, facts.method, facts.since, f"needs {self.id} >= {facts.since}")
        if facts.until and mine >= version_key(facts.until):
            return Support(False, facts.method, facts.since, f"removed in {self.id} {facts.until}. {facts.note}".strip())
        return Support(True, facts.method, facts.since, facts.note)

    def _grid(self, query_tokens: int, gpu: Gpu, max_requests: int | None, tp: int) -> FloatArray | None:
        """Captured request counts at this query length; None where the engine captures what comes, without padding."""
        rules = self.graph_rules
        limit = max_requests or self.max_requests(gpu, speculating=query_tokens > 1)
        if rules["kind"] == "vllm":
            ceiling = rules["tokens_sm10x"] if gpu.sm // 10 == 10 else rules["tokens"]
            asked = graphs.vllm_count(self.tuned_requests) * query_tokens
            return graphs.vllm_grid(query_tokens, limit, max(self.token_budget(gpu), asked), max(ceiling, asked))
        if rules["kind"] == "sglang":
            largest = next(row[1 if tp < 4 else 2] for row in rules["batches"] if gpu.memory_bytes < row[0] * GIB)
            return graphs.sglang_grid(min(max(largest, self.tuned_requests), limit), query_tokens > 1)
        if rules["kind"] == "trtllm":
            return graphs.trtllm_grid(min(max(rules["batch"], self.tuned_requests), limit))
        return graphs.NO_GRAPH if rules["kind"] == "eager" else None


def _lengths(query_tokens: Any) -> list[float]:
    """The different whole query lengths (a set: ``np.unique`` would import ``numpy.ma``, a tenth of a short command's time)."""
    return sorted(set(np.ceil(np.asarray(query_tokens, dtype=float)).ravel().tolist()))


def _row_matches(row: Mapping[str, Any], gpu: Gpu, speculating: bool) -> bool:
    return (
        row.get("speculating", speculating) == speculating
        and gpu.memory_bytes >= row.get("least_gib", 0) * GIB
        and gpu.sm not in row.get("not_sm", ())
    )
