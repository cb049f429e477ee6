"""Bind a deployment once, ask often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.advise.acceptance_input import Stated
from specadvisor.advise.anchor import Anchor
from specadvisor.advise.answer import recommend
from specadvisor.advise.candidates import candidates
from specadvisor.advise.evaluate import Evaluation, evaluate
from specadvisor.advise.inputs import DEFAULT_CONCURRENCY, LARGEST_CONCURRENCY, make_load
from specadvisor.advise.recommendation import Recommendation
from specadvisor.checks import fraction, positive
from specadvisor.drafters import Drafter
from specadvisor.errors import InputError
from specadvisor.hardware import Gpu, load_gpu
from specadvisor.ids import EMITTERS, resolve
from specadvisor.kernels import parameters
from specadvisor.model import Architecture, load_model
from specadvisor.serving import ServingEngine, load_engine
from specadvisor.step import Deployment, StepTime, check_fits, resident, target_step

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

    from specadvisor.advise.explain import Explanation
    from specadvisor.advise.tuner import Tuner

Drafters = str | Drafter | Sequence["str | Drafter"]


class Advisor:
    """Advice for one model on one deployment. ``tp``, ``ep``, ``dp``, ``pp`` count GPUs; ``kv``: format of the cache.

    ``memory_fraction``: part of the GPU that the engine may use (default: the engine's). ``kv_pool_tokens``: size of the KV
    cache that the engine printed at start *without* a drafter; what a drafter takes away is computed from there.
    ``tuned_limits``: the engine is started with the options that ``Recommendation.flags`` writes, so that as many requests as
    asked for may run at once and in graphs; False: with its defaults.
    Raises ``InputError`` for values that cannot be used and ``DoesNotFit`` where the weights leave no room for a cache.
    """

    def __init__(
        self,
        model: str | Architecture,
        gpu: str | Gpu,
        engine: str = "vllm",
        *,
        tp: int = 1,
        ep: int = 1,
        dp: int = 1,
        pp: int = 1,
        weights: str | None = None,
        kv: str | None = None,
        engine_version: str | None = None,
        graphs: bool = True,
        async_scheduling: bool | None = None,
        power_limit_w: float | None = None,
        memory_fraction: float | None = None,
        kv_pool_tokens: float | None = None,
        tuned_limits: bool = True,
    ) -> None:
        architecture = model if isinstance(model, Architecture) else load_model(model, weights=weights, kv=kv)
        card = gpu if isinstance(gpu, Gpu) else load_gpu(gpu, power_limit_w=power_limit_w)
        serving = load_engine(engine, engine_version)
        if memory_fraction is not None:
            serving = replace(serving, memory_fraction=fraction("memory fraction", memory_fraction))
        architecture = with_cache_of(architecture, kv, serving)
        self.deployment = Deployment(
            architecture, card, serving, tp=tp, ep=ep, dp=dp, pp=pp, kv_format=architecture.kv_format, graphs=graphs,
            async_scheduling=async_scheduling,
        )  # fmt: skip
        if kv_pool_tokens is not None:
            self.deployment = with_kv_pool(self.deployment, kv_pool_tokens)
        check_fits(self.deployment, resident(self.deployment))
        self.tuned_limits = tuned_limits and serving.id in EMITTERS

    def started_for(self, concurrency: ArrayLike) -> Deployment:
        """The deployment with the engine's limits raised to the largest ``concurrency`` (``tuned_limits``)."""
        loads = parameters.positive("concurrency", concurrency)
        if not loads.size:
            raise InputError("concurrency", [], "at least one number of requests in flight")
        if not self.tuned_limits:
            return self.deployment
        requests = int(np.ceil(loads.max() / self.deployment.dp))
        return replace(self.deployment, serving=self.deployment.serving.tuned(requests))

    def step(self, batch: ArrayLike, query_tokens: ArrayLike, context: ArrayLike) -> StepTime:
        """Seconds of one forward pass by component; ``batch`` sequences of one replica, arrays broadcast."""
        given = {"batch": batch, "query_tokens": query_tokens, "context": context}
        return target_step(self.deployment, *(parameters.positive(name, value) for name, value in given.items()))

    def evaluate(
        self,
        drafter: str | Drafter,
        k: ArrayLike,
        concurrency: ArrayLike,
        context: ArrayLike,
        *,
        acceptance: Stated | None = None,
        workload: str = "mixed",
        temperature: float = 0.0,
        input_tokens: ArrayLike | None = None,
        output_tokens: ArrayLike | None = None,
        modifiers: Sequence[str] = (),
    ) -> Evaluation:
        """Costs and gains of one drafter over any grid; the arrays broadcast against each other."""
        context = parameters.positive("context", context)
        deployment = self.started_for(concurrency)
        found = candidates(deployment, drafter, acceptance, workload, temperature, modifiers, context)
        one = found.drafters[0]
        return evaluate(deployment, one, found.survival[one.name], k, concurrency, context, input_tokens, output_tokens)

    def sweep(
        self,
        drafters: Drafters | None = None,
        k: int | Sequence[int] | None = None,
        concurrency: int | Sequence[int] | None = None,
        context: int | Sequence[int] | None = None,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        acceptance: Stated | None = None,
        workload: str = "mixed",
        temperature: float = 0.0,
        modifiers: Sequence[str] = (),
        anchors: Sequence[str | Anchor] = (),
        executor: Executor | None = None,
    ) -> pd.DataFrame:
        """The whole grid as a tidy table, one row per point, units in the column names; k = 0 rows are plain decoding.

        ``anchors``: measured points that correct the speed-ups, as in ``recommend``.
        ``executor``: any ``concurrent.futures.Executor`` (Dask's and Ray's too) that evaluates the drafters side by side.
        """
        from specadvisor.advise.sweep import axis, context_axis, sweep

        deployment = self.started_for(axis("concurrency", concurrency, DEFAULT_CONCURRENCY, 1, LARGEST_CONCURRENCY))
        keys = context_axis(context, input_tokens, output_tokens)
        found = candidates(deployment, drafters, acceptance, workload, temperature, modifiers, keys)
        return sweep(deployment, found, k, concurrency, context, input_tokens, output_tokens, anchors, executor)

    def recommend(
        self,
        concurrency: int | Sequence[int] | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        *,
        context: int | None = None,
        workload: str = "mixed",
        temperature: float = 0.0,
        drafters: Drafters | None = None,
        acceptance: Stated | None = None,
        objective: str = "throughput",
        max_tpot_s: float | None = None,
        max_ttft_s: float | None = None,
        modifiers: Sequence[str] = (),
        anchors: Sequence[str | Anchor] = (),
        gpu_price: float | None = None,
        train_gpu_hours: float | None = None,
        command: str = "specadvisor recommend ...",
    ) -> Recommendation:
        """Which drafter, how many draft tokens, at which load, how sure.

        ``drafters``: None ranks every drafter that is legal here. ``acceptance``: see ``parse_acceptance``; None takes the
        catalogue, which the answer then says first. ``anchors``: measured points, ``"concurrency=1,k=3,speedup=1.9"``.
        ``gpu_price`` (per GPU hour) with ``train_gpu_hours``: break-even of training the drafter.
        """
        load = make_load(
            concurrency, input_tokens, output_tokens, context, workload, temperature, objective, max_tpot_s, max_ttft_s
        )
        if (gpu_price is None) != (train_gpu_hours is None):
            given = train_gpu_hours if gpu_price is None else gpu_price
            raise InputError("break-even", given, "a GPU price together with training GPU hours")
        if gpu_price is not None and train_gpu_hours is not None:
            gpu_price = positive("GPU price", gpu_price)
            train_gpu_hours = positive("training GPU hours", train_gpu_hours)
        deployment = self.started_for(load.concurrency)
        found = candidates(deployment, drafters, acceptance, load.workload, load.temperature, modifiers, load.context)
        return recommend(deployment, load, found, anchors, gpu_price, train_gpu_hours, command)

    def explain(
        self,
        drafter: str | Drafter,
        k: int,
        concurrency: int,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        *,
        context: int | None = None,
        workload: str = "mixed",
        temperature: float = 0.0,
        acceptance: Stated | None = None,
        modifiers: Sequence[str] = (),
        anchors: Sequence[str | Anchor] = (),
    ) -> Explanation:
        """The guideline trace of one point: times by component, the five guidelines, and where each number comes from."""
        load = make_load(concurrency, input_tokens, output_tokens, context, workload, temperature, "throughput", None, None)
        from specadvisor.advise.explain import explain

        deployment = self.started_for(load.concurrency)
        found = candidates(deployment, drafter, acceptance, workload, temperature, modifiers, load.context)
        return explain(deployment, found, load, k, anchors)

    def tuner(self, drafter: str | Drafter, concurrency: Sequence[int], context: int = 2048, **options: Any) -> Tuner:
        """An online choice of k that learns the acceptance while serving: ``observe`` and ``choose``."""
        from specadvisor.advise.make_tuner import make_tuner

        return make_tuner(self, drafter, concurrency, context, **options)


def with_cache_of(model: Architecture, stated: str | None, serving: ServingEngine) -> Architecture:
    """``model`` with the cache format that is stated, else the config's, else what ``serving`` has instead, with a note.

    Raises ``InputError`` for a stated format that the engine does not have.
    """
    wanted = resolve("KV format", stated) if stated else model.kv_format
    if not serving.kv_formats or wanted in serving.kv_formats:
        return model.with_kv_format(wanted)
    if stated:
        raise InputError("KV format", stated, ", ".join(serving.kv_formats), f"{serving.id} has no such cache.")
    note = f"The config names an {wanted} cache, which {serving.id} does not have: {serving.kv_formats[0]} is assumed (--kv)."
    return replace(model, kv_format=serving.kv_formats[0], warnings=(*model.warnings, note))


def with_kv_pool(deployment: Deployment, tokens: float) -> Deployment:
    """``deployment`` with the engine's reserve set so that its KV pool without a drafter holds ``tokens`` tokens.

    Raises ``InputError`` where that many do not fit beside the weights.
    """
    pool = positive("KV pool (tokens)", tokens)
    memory = resident(deployment)
    free = memory.total_bytes - memory.weight_bytes
    reserve = free - pool * memory.kv_bytes_per_token
    if reserve < 0:
        most = int(free / memory.kv_bytes_per_token)
        raise InputError(
            "KV pool (tokens)", tokens, f"at most {most} on {deployment.gpu.id}", "A larger pool needs a memory fraction."
        )
    return replace(deployment, serving=replace(deployment.serving, reserve_bytes=reserve))
