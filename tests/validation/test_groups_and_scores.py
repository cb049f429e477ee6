from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from specadvisor.errors import InputError
from specadvisor.validation.groups import argmax_choice, drafter_sets, groups_of, naive_policies
from specadvisor.validation.score import bootstrap_mean, coverage_figures, score, sign_figures, size_figures, spearman
from specadvisor.validation.sweeps import read_sweeps

COLUMNS = (
    "case_id",
    "group_id",
    "target",
    "target_config",
    "gpu",
    "engine",
    "drafter_kind",
    "k",
    "concurrency",
    "throughput_speedup",
)


def small(*rows: tuple[object, ...]) -> pd.DataFrame:
    """A table of (case, group, k, concurrency, speed-up)."""
    filled = [(c, g, "Qwen3-8B", "x.json", "h100_sxm", "vllm", "eagle3", k, load, gain) for c, g, k, load, gain in rows]
    return read_sweeps(pd.DataFrame(filled, columns=COLUMNS))


LADDER = small(("f-a", "g|c1", 1, 1, 1.2), ("f-a", "g|c1", 3, 1, 1.5), ("f-a", "g|c1", 7, 1, 0.9), ("f-a", "g|c64", 3, 64, 0.8))


def test_regret_by_hand() -> None:
    group = groups_of(LADDER)["g|c1"]
    assert group.options.tolist() == [0, 1, 3, 7]
    assert (group.best, group.best_k) == (1.5, 3)
    assert group.regret(1) == pytest.approx(1 - 1.2 / 1.5)
    assert group.regret(0) == pytest.approx(1 - 1 / 1.5)
    assert np.isnan(group.regret(5))
    assert groups_of(LADDER)["g|c64"].best_k == 0


def test_policies_by_hand() -> None:
    groups = groups_of(LADDER)
    chosen = {name: [policy(groups[g]) for g in ("g|c1", "g|c64")] for name, policy in naive_policies(groups).items()}
    assert chosen == {
        "always off": [0, 0],
        "k = 3": [3, 3],
        "k = 5": [3, 3],
        "largest k": [7, 3],
        "best k at c = 1 kept": [3, 3],
    }


def test_a_group_without_baseline_cannot_be_switched_off() -> None:
    table = small(("f-a", "g|c1", 1, 1, np.nan), ("f-a", "g|c1", 3, 1, np.nan))
    table["spec_tok_s"] = [10.0, 12.0]
    group = groups_of(table)["g|c1"]
    assert (group.metric, group.options.tolist(), group.best_k) == ("tok_s", [1, 3], 3)


def test_argmax_prefers_the_smaller_k_and_off_where_nothing_was_predicted() -> None:
    group = groups_of(LADDER)["g|c1"]
    assert argmax_choice(group, np.array([1.5, 1.5, 1.4])) == 1
    assert argmax_choice(group, np.array([0.9, 0.8, np.nan])) == 0
    assert argmax_choice(group, np.full(3, np.nan)) == 0


def test_naive_policies_on_the_published_sweeps(sweeps: pd.DataFrame) -> None:
    """Numbers of the reference scorer on the same file."""
    blank = sweeps[["group_id", "k"]].assign(predicted_throughput_speedup=np.nan, predicted_tpot_speedup=np.nan)
    scores = score(sweeps, blank, draws=1000)
    found = {
        policy: round(100 * scores["all"].regret[policy]["mean"], 1) for policy in ("always off", "k = 3", "k = 5", "largest k")
    }
    assert found == {"always off": 27.8, "k = 3": 6.8, "k = 5": 7.3, "largest k": 9.4}
    known, unknown = scores["acceptance known"], scores["acceptance unknown"]
    assert (scores["all"].groups, known.groups, unknown.groups) == (558, 361, 197)
    assert round(100 * known.regret["k = 3"]["mean"], 1) == 7.0
    assert round(100 * unknown.regret["k = 3"]["mean"], 1) == 6.6
    three = scores["all"].regret["k = 3"]
    assert (round(100 * three["low"], 1), round(100 * three["high"], 1)) == (4.0, 9.8)
    assert scores["all"].drafter_choice["fixed order, k = 3"]["mean"] == pytest.approx(0.133, abs=5e-4)
    assert len(drafter_sets(groups_of(sweeps))) == 138


def test_perfect_predictions_score_perfectly(sweeps: pd.DataFrame) -> None:
    measured = sweeps[["group_id", "k"]].assign(
        predicted_throughput_speedup=sweeps.throughput_speedup.fillna(sweeps.spec_tok_s),
        predicted_tpot_speedup=sweeps.tpot_speedup,
        low=sweeps.throughput_speedup * 0.99,
        high=sweeps.throughput_speedup * 1.01,
    )
    scores = score(sweeps, measured, draws=0)
    assert [name for name in scores if name.startswith("load")] == [
        f"load: {name}" for name in ("c 1", "c 2-8", "c 9-32", "c 33-128", "c >128")
    ]
    scored = scores["all"]
    assert scored.regret["predicted"]["mean"] == scored.size["throughput"]["p90"] == scored.size["tpot"]["p90"] == 0.0
    assert scored.sign["main"]["balanced"] == scored.order["mean"] == scored.coverage["inside"] == 1.0
    assert scored.drafter_choice["predicted"]["mean"] == 0.0


def test_sign_counts_clear_rows_only() -> None:
    figures = sign_figures(pd.Series([1.5, 0.5, 1.01, 0.9]), pd.Series([1.2, 0.8, 0.5, 1.3]))
    assert (figures["n"], figures["accuracy"], figures["faster"], figures["slower"]) == (3, pytest.approx(2 / 3), 1.0, 0.5)
    assert figures["balanced"] == 0.75


def test_size_and_coverage_by_hand() -> None:
    measured = pd.Series([1.0, 2.0, 4.0])
    assert size_figures(measured, pd.Series([1.1, 2.0, 3.0]))["median"] == pytest.approx(0.1)
    assert coverage_figures(measured, pd.Series([0.9, 2.1, 3.0]), pd.Series([1.1, 2.5, 5.0]))["inside"] == pytest.approx(2 / 3)


def test_rank_correlation_with_ties() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(np.sqrt(3) / 2)
    assert np.isnan(spearman(np.array([1.0, 1.0]), np.array([1.0, 2.0])))


def test_bootstrap_resamples_families() -> None:
    values = np.array([0.0] * 50 + [1.0] * 50)
    one = bootstrap_mean(values, np.array(["a"] * 50 + ["b"] * 50), 500)
    many = bootstrap_mean(values, np.arange(100), 500)
    assert one == (0.0, 1.0)
    assert 0.35 < many[0] < many[1] < 0.65


@pytest.mark.parametrize(
    "broken",
    [
        pd.DataFrame({"a": [1]}),
        pd.DataFrame([("c", "g|c1", "t", "x", "g", "vllm", "mtp", 3, 1, 1.0)] * 2, columns=COLUMNS),
        pd.DataFrame([("c", "g|c1", "t", "x", "g", "vllm", "mtp", "many", 1, 1.0)], columns=COLUMNS),
    ],
)
def test_a_table_that_is_none_is_an_input_error(broken: pd.DataFrame) -> None:
    with pytest.raises(InputError):
        read_sweeps(broken)


def test_an_unreadable_file_is_an_input_error(tmp_path) -> None:
    with pytest.raises(InputError):
        read_sweeps(tmp_path / "absent.csv")
