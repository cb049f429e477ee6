"""Published measurements that the cost model has to reproduce in sign and order (``benchmarks/anchors.py``)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import anchor_points as data
import anchor_unknowns
import anchors


@pytest.fixture(scope="module")
def table10() -> list[data.Table10Row]:
    return data.table10()


@pytest.fixture(scope="module")
def sweeps() -> list[data.Point]:
    return data.speedup_points()


def predicted(points: list[data.Point], setting: str, series: str) -> dict[float, float]:
    found = {p.load: p.predicted for p in points if (p.setting, p.series) == (setting, series)}
    assert found
    return found


def test_every_row_names_its_source_and_every_assumption_is_marked() -> None:
    for name in ("settings", "speedups", "verification", "shares", "speed_bench_table10"):
        rows = data.read(f"{name}.csv")
        assert rows and all(row["source"].startswith("https://") for row in rows)
    settings = data.settings()
    assert all(row["context_origin"] in ("printed", "assumed") and row["gpu_origin"] for row in settings.values())
    series = data.read("series.csv")
    assert all(row["length_origin"] and row["setting"] in settings for row in series)
    assert {(r["setting"], r["series"]) for r in series} == {(r["setting"], r["series"]) for r in data.read("speedups.csv")}


def test_score_counts_a_hand_made_table() -> None:
    points = [
        data.Point("s", "a", 1, 2.0, 1.5),
        data.Point("s", "a", 8, 0.8, 1.1),
        data.Point("s", "b", 1, 1.01, 0.9),
        data.Point("s", "b", 8, 1.02, 1.6),
    ]
    score = data.score(points)
    assert score.signs == (1, 2)  # 1.01 and 1.02 are too near 1 to have a sign
    assert score.orders == (3, 3)  # a1 > a8, a1 > b1 and b8 > a8; b1 and b8 are within 3%; a1-b8 and a8-b1 share nothing
    assert score.errors == pytest.approx([0.25, 0.375, 1 - 0.9 / 1.01, 1.6 / 1.02 - 1])


def test_table10_has_all_signs_and_its_order_with_one_number_per_drafter(table10: list[data.Table10Row]) -> None:
    for ratio in ("ratio_with_seconds", "ratio_with_factor"):
        score = data.score([row.point(getattr(row, ratio)) for row in table10])
        assert score.signs == (12, 12)
        assert score.orders[0] >= 0.85 * score.orders[1]
    assert score.orders[0] >= 0.95 * score.orders[1]
    assert np.median(score.errors) < 0.05


def test_table10_overhead_fitted_at_1k_predicts_longer_prompts(table10: list[data.Table10Row]) -> None:
    for row in table10:
        if row.tokens == 1024:
            assert row.ratio_with_seconds == pytest.approx(row.ratio) == pytest.approx(row.ratio_with_factor)
        else:
            assert row.ratio_with_factor == pytest.approx(row.ratio, rel=0.15)
            if not (row.printed["drafter"].startswith("draft_model") and row.tokens == 8192):
                assert row.ratio_with_seconds == pytest.approx(row.ratio, rel=0.15)


def test_table10_plain_steps_are_of_the_printed_size(table10: list[data.Table10Row]) -> None:
    for row in table10:
        assert 1e3 * row.plain_s == pytest.approx(float(row.printed["t_ar_ms"]), rel=0.30)


@pytest.mark.parametrize("task", ["gsm8k", "humaneval", "alpaca"])
def test_trees_pay_at_low_concurrency_and_lose_at_high(sweeps: list[data.Point], task: str) -> None:
    small, large, block = (
        predicted(sweeps, f"dflash-{task}", name) for name in ("EAGLE-3 tree 10", "EAGLE-3 tree 60", "DFlash 10")
    )
    assert large[1] > small[1] > 1 and large[1] > 1.5
    assert large[32] < large[16] < 1 < block[16] and small[32] < block[32]
    assert all(large[a] > large[b] for a, b in zip((1, 4, 8, 16), (4, 8, 16, 32), strict=True))


def test_dense_target_gains_less_with_batch_and_sparse_target_gains_more(sweeps: list[data.Point]) -> None:
    dense = predicted(sweeps, "dcut-qwen3-8b", "DFlash-16")
    assert dense[4] > 2 > dense[8] > 1 > dense[32] > dense[64]
    sparse = predicted(sweeps, "dcut-qwen3.5-35b-a3b", "DFlash-16")
    assert 1 < sparse[4] < sparse[8] < sparse[16]
    mtp = predicted(sweeps, "dcut-qwen3.5-35b-a3b", "MTP")
    assert 1 < mtp[4] < mtp[64]


def test_cutting_the_block_by_confidence_pays_more_the_larger_the_batch(sweeps: list[data.Point]) -> None:
    whole = predicted(sweeps, "dcut-qwen3-8b", "DFlash-16")
    cut = predicted(sweeps, "dcut-qwen3-8b", "D-Cut-16")
    gains = [cut[batch] / whole[batch] for batch in (4, 8, 16, 32)]
    assert 1.05 < gains[0] == min(gains) and gains[-1] == max(gains) > 1.3


def test_eagle3_chains_still_gain_at_the_largest_measured_batch(sweeps: list[data.Point]) -> None:
    for setting, series in (("eagle3-sglang", "EAGLE-3 chain 3"), ("eagle3-vllm", "EAGLE-3 chain 2")):
        assert all(value > 1 for value in predicted(sweeps, setting, series).values())
    vllm = predicted(sweeps, "eagle3-vllm", "EAGLE-3 chain 2")
    assert vllm[2] > vllm[16] > vllm[32] > vllm[56]


def test_verification_times_are_in_order_and_near_on_the_dense_target() -> None:
    points = data.verification_points()
    score = data.score(points)
    assert score.orders[0] == score.orders[1] == 75
    dense = [abs(p.error) for p in points if p.setting == "dcut-qwen3-8b"]
    assert np.median(dense) < 0.25 and max(dense) < 0.5


def test_verification_times_agree_at_the_context_that_they_imply() -> None:
    """One number is read off pairs of equal rows; the twenty times then agree."""
    slope, keys = data.context_of_verification("dcut-qwen3-8b")
    assert slope == pytest.approx(0.42, abs=0.01) and 1000 < keys < 8000
    errors = [abs(p.error) for p in data.verification_points(keys) if p.setting == "dcut-qwen3-8b"]
    assert np.median(errors) < 0.10 and max(errors) < 0.30


@pytest.fixture(scope="module")
def fitted() -> dict[str, anchor_unknowns.Unknown]:
    return {u.setting: u for u in anchor_unknowns.unknowns()}


def test_a_number_fitted_on_one_series_predicts_the_source_s_others(fitted: dict[str, anchor_unknowns.Unknown]) -> None:
    for unknown in fitted.values():
        assert unknown.value not in (
            anchor_unknowns.CANDIDATES[unknown.quantity][0],
            anchor_unknowns.CANDIDATES[unknown.quantity][-1],
        )
        score = data.score(unknown.tested)
        assert all(p.series != unknown.series for p in unknown.tested)
        assert score.signs[0] >= 0.9 * score.signs[1] and score.orders[0] >= 0.9 * score.orders[1]
        assert np.median(score.errors) < 0.08


def test_the_context_of_a_page_is_the_same_from_whichever_series_it_is_fitted() -> None:
    series = ["EAGLE-3", "DFlash-8", "DFlash-16", "D-Cut-8", "D-Cut-16"]
    keys = [anchor_unknowns.fit("dcut-qwen3-8b", "context", name, "").value for name in series]
    assert max(keys) < 2 * min(keys)


def test_every_sign_holds_on_trees_and_blocks(sweeps: list[data.Point]) -> None:
    points = [p for p in sweeps if p.setting.startswith("dflash-")]
    assert len(points) == 45 and not data.wrong_signs(points)


def test_most_signs_and_orders_hold_over_all_tables(sweeps: list[data.Point], capsys: pytest.CaptureFixture[str]) -> None:
    score = data.score(sweeps)
    assert score.signs[0] >= 0.9 * score.signs[1]
    assert score.orders[0] >= 0.9 * score.orders[1]
    anchors.main()
    closing = capsys.readouterr().out.splitlines()[-1]
    assert "signs" in closing and "orders" in closing and "median |error|" in closing
