"""P-EAGLE: EAGLE-3's inputs for the first position, learned masks for the others, all of them in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specadvisor.drafters.base import Drafter
from specadvisor.drafters.eagle3 import parts
from specadvisor.drafters.round import Load, Round
from specadvisor.drafters.shapes import family_shape
from specadvisor.model.architecture import Architecture
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.layers import layers_time, linear_time

if TYPE_CHECKING:
    from specadvisor.step.deployment import Deployment


class PEagle(Drafter):
    """P-EAGLE (2602.01469): fc on r rows, four layers on r + k - 1 rows, reduced head on k rows; keys of four layers.

    Against a one-layer head it reads about 4/k as many layer weights and one head instead of k: it loses below k = 4.
    """

    kind = "p_eagle"

    def draft(self, deployment: Deployment, load: Load) -> Round:
        batch, k, context, accepted = load.batch, load.k, load.context, load.accepted
        rows = self.catch_up_rows(deployment.serving, k, accepted)
        head = self.head or self.model.head
        draft = linear_time(deployment, self.inputs, batch * rows)
        draft = draft + layers_time(deployment, self.layers, batch, rows + k - 1.0, context)
        draft = draft + head_time(deployment, head, batch * k) + sampling_time(deployment, batch * k, head.out_features)
        layers = k * 0.0 + self.layer_count
        return Round(
            draft=draft + self.launches(deployment, 1.0, layers),
            verified_tokens=1.0 + self.verified_drafts(k),
        )


def build(model: Architecture, config: Mapping[str, Any] | None, name: str) -> PEagle:
    """P-EAGLE of the usual shape, or of ``config``."""
    shape, assumptions = family_shape("p_eagle", model, config)
    return PEagle(name=name, model=model, assumptions=assumptions, **parts(shape))
