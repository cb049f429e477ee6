"""Rounds of drafters that make one pass per drafted token."""

from __future__ import annotations

import numpy as np

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.facts import engine_facts
from specadvisor.drafters.round import Load, Round
from specadvisor.model.architecture import Linear
from specadvisor.ranges import FloatArray
from specadvisor.serving import ServingEngine, version_key
from specadvisor.step.deployment import Deployment
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.layers import layers_time, linear_time
from specadvisor.step.time import StepTime


class SequentialDrafter(Drafter):
    """k passes a round: the first brings the cache up to date (catch-up rows), the others run one row per sequence,
    or ``topk`` rows in a tree. Every pass re-reads the layers and the head.

        draft = inputs(catch-up rows) + pass(catch-up rows) + (k - 1) * pass(width rows) + k * (head + sampling)(width rows)
    """

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k, context, accepted = load.batch, load.k, load.context, load.accepted
        width = float(self.tree.topk) if self.tree else 1.0
        rows = self.catch_up_rows(deployment.serving, k, accepted)
        first = self.one_pass(deployment, batch, rows, context)
        if self.inputs:
            first = first + linear_time(deployment, self.inputs, batch * rows)
        head = self.step_head
        projected = head_time(deployment, head, batch) + sampling_time(deployment, batch, head.out_features)
        draft = first + projected
        if np.any(k > 1):
            again = self.one_pass(deployment, batch, np.asarray(width), context)
            again = again + head_time(deployment, head, batch * width)
            again = again + sampling_time(deployment, batch * width, head.out_features)
            draft = draft + again.scaled(k - 1.0)
        layers = k * self.layer_count
        launches = self.launches(deployment, k, layers)
        if self.launches_eagerly(deployment.serving):
            missing = np.maximum(0.0, layers * deployment.serving.eager_layer_s - draft.total_s)
            launches = self.launches(deployment, k, 0.0).plus("host", missing)
        if self.drafts_in_executor(deployment.serving):
            unhidden = np.maximum(0.0, self.layer_count * deployment.serving.eager_layer_s - first.total_s)
            launches = launches.plus("host", k * deployment.serving.host_s + unhidden)
        return Round(
            draft=draft + launches,
            verified_tokens=1.0 + self.verified_drafts(k),
        )

    def launches_eagerly(self, serving: ServingEngine) -> bool:
        """True for kinds and versions whose passes run without a graph, bound by their launches."""
        facts = engine_facts()["eager_passes"]
        versions = facts.get(serving.id)
        if self.kind not in facts["kinds"] or not versions:
            return False
        return bool(version_key(versions["since"]) <= version_key(serving.version) < version_key(versions["until"]))

    def drafts_in_executor(self, serving: ServingEngine) -> bool:
        """True for kinds and versions whose passes the engine's executor schedules one by one."""
        rule = engine_facts()["executor_passes"].get(serving.id)
        if not rule or self.kind not in rule["kinds"]:
            return False
        return bool(version_key(serving.version) < version_key(rule["until"]))

    @property
    def step_head(self) -> Linear:
        return self.head or self.model.head

    def one_pass(self, deployment: Deployment, batch: FloatArray, rows: FloatArray, context: FloatArray) -> StepTime:
        """The drafter's layers (and the matrices in front of them) on ``rows`` tokens per sequence, without the head."""
        time = layers_time(deployment, self.layers, batch, rows, context)
        if self.step_linears:
            time = time + linear_time(deployment, self.step_linears, batch * rows)
        return time
