"""Levels of the kinds: what a prior rests on where rows are few, and intervals that hold what was left out."""

import numpy as np
import pytest

from specadvisor.acceptance import prior
from specadvisor.acceptance.catalogue import load_rows
from specadvisor.acceptance.kinds import FAMILY_OF
from specadvisor.acceptance.levels import FIXED_SD, GROUPS, row_levels, temperature_factors
from specadvisor.acceptance.lookup import LOOKUPS
from specadvisor.acceptance.mixed_model import MixedModel
from specadvisor.acceptance.priors import shipped_table
from specadvisor.acceptance.rules import left_out, temperature_pairs


@pytest.fixture(scope="module")
def model() -> MixedModel:
    rows = list(load_rows())
    out = left_out(rows)
    kept = [row for row in rows if row.id not in out]
    levels = row_levels(kept, shipped_table().shapes, temperature_factors(temperature_pairs(rows)))
    return MixedModel(kept, levels, GROUPS, FIXED_SD)


def test_leaving_a_source_out_by_identity_is_leaving_its_rows_out(model: MixedModel) -> None:
    sd = dict.fromkeys((*GROUPS, "rest"), 0.4)
    of_source = np.array([row.source == "arxiv-2604.09557" for row in model.rows])
    found = model.without(model.solve(sd), of_source)
    kept = model.design[~of_source]
    direct = np.linalg.inv(kept.T @ kept / 0.16 + np.eye(kept.shape[1]) / 0.16)
    np.testing.assert_allclose(found.covariance, direct, atol=1e-9)
    np.testing.assert_allclose(found.mean, direct @ kept.T @ model.values[~of_source] / 0.16, atol=1e-9)


def test_widened_intervals_hold_eighty_percent_of_what_was_left_out(model: MixedModel) -> None:
    """With deviations ten times too small the factors are ten times as large; with far too large ones they are 1."""
    sd = dict.fromkeys((*GROUPS, "rest"), 0.4)
    effects = model.solve(sd)

    def wanted(row: object) -> dict[str, str]:
        return {}

    narrow, wide = (model.scatter(effects, wanted, new) for new in (1e-4, 1e4))
    assert narrow["all"] == pytest.approx(10 * model.scatter(effects, wanted, 1e-2)["all"], rel=1e-6)
    assert set(wide.values()) == {1.0}


def test_heads_trained_with_the_model_say_nothing_of_added_ones() -> None:
    out = left_out(load_rows())
    assert {out[row.id] for row in load_rows() if row.source == "arxiv-2404.19737"} == {"pretrained_heads"}


def test_token_recycling_has_candidates_after_every_token() -> None:
    """2.62 to 2.83 tokens on Spec-Bench with its tree of six levels; no chance of a match comes before it."""
    assert "token_recycling" not in LOOKUPS
    assert FAMILY_OF["token_recycling"] == "recycled"
    interval = prior("token_recycling").range(6)
    assert float(interval.low) < 2.0 < float(interval.mid) < 2.83 < float(interval.high) + 0.1


def test_a_heads_speculator_is_no_medusa() -> None:
    at_3 = {kind: float(prior(kind).acceptance_length(3)) for kind in ("medusa", "hydra", "eagle", "mlp_speculator")}
    assert at_3["medusa"] < at_3["hydra"] < at_3["eagle"] < at_3["mlp_speculator"]
    assert shipped_table().shapes["medusa"].intercept < shipped_table().shapes["hydra"].intercept
