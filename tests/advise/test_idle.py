"""What a drafter costs that is loaded but not used."""

from __future__ import annotations

import numpy as np
import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.advise.idle import idle_cost_s
from specadvisor.drafters import load_drafter
from specadvisor.step import target_step

from .conftest import TESTS

DFLASH_8B = TESTS / "data" / "drafter_configs" / "qwen3-8b-dflash.json"
ONE, CONTEXT = np.ones(()), np.asarray(1024.0)


def idle(kind: str) -> tuple[float, float, float]:
    """Seconds at k = 0, of drafting at k = 1, and of a plain step: Qwen3-8B in 4 bit on one RTX 4090 at concurrency 1."""
    deployment = Advisor("qwen3-8b", "rtx_4090", weights="w4a16").deployment
    drafter = load_drafter(kind, deployment.model, deployment.serving.id).on(deployment)
    drafting = drafter.round(deployment, ONE, 1.0, CONTEXT, 1.0).draft.total_s
    seconds = float(idle_cost_s(deployment, drafter, ONE, CONTEXT))
    return seconds, float(drafting), float(target_step(deployment, ONE, 1.0, CONTEXT).total_s)


def test_an_idle_block_drafter_reads_its_fusion_and_key_value_matrices_only():
    """Fc 5 * 4096 x 4096 and, in five layers, K and V 4096 x 2 * 1024 in 16 bit: 0.25 GB, 0.25 ms at 1008 GB/s."""
    seconds, drafting, step = idle(f"dflash:{DFLASH_8B}")
    read = 2 * (5 * 4096 * 4096 + 5 * 4096 * 2 * 1024) / 1.008e12
    assert read < seconds < read + 0.5e-3
    assert seconds < 0.1 * step < drafting


def test_an_idle_head_runs_its_layer_without_the_vocabulary():
    seconds, drafting, step = idle("eagle3")
    assert 0.05 * step < seconds < 0.2 * step
    assert seconds < drafting


@pytest.mark.parametrize("kind", ["ngram", "medusa"])
def test_a_drafter_without_a_cache_costs_nothing_while_idle(kind):
    assert idle(kind)[0] == 0.0
