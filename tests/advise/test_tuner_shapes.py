"""The tuner where acceptance does not run as its kind's usual shape does: seeded traffic, regret over the last 300 rounds."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from specadvisor import Advisor
from specadvisor.acceptance import prior
from specadvisor.advise.round_times import RoundTimes
from specadvisor.advise.tuner import Tuner
from specadvisor.errors import InputError

K_MAX = 16
K = np.arange(K_MAX + 1)
# Memory-bound: a further draft costs a tenth of a step; compute-bound: each verified token costs a fifth of one.
LOADS = np.array([1.0, 8.0, 128.0])
TIMES = RoundTimes(LOADS, np.array([6.0 + 0.5 * K + 0.6 * (K > 0), 7.0 + 0.6 * K + 0.7 * (K > 0), 19.0 + 3.8 * K]) * 1e-3)
CURVES = {
    "geometric": [0.8] * 16,
    "collapse": [0.70, 0.16, 0.18] + [0.2] * 13,
    "cliff after 4": [0.8] * 4 + [0.1] * 12,
    "flat": [0.95] * 16,
    "rising": [0.45, 0.55, 0.65, 0.72, 0.78, 0.82, 0.85, 0.87] + [0.88] * 8,
    "off": [0.1] * 16,
}


def speed(conditional: list[float], load: float) -> np.ndarray:
    return np.concatenate(([1.0], 1.0 + np.cumsum(np.cumprod(conditional)))) / TIMES.at(load)[0]


def serve(tuner: Tuner, conditional: list[float], load: int, rounds: int, seed: int, positions: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    chosen = []
    for _ in range(rounds):
        k = tuner.choose(load)
        chosen.append(k)
        accepted = np.cumprod(rng.random((load, k)) < np.array(conditional[:k]), axis=1)
        more = {"per_position": accepted.sum(axis=0)} if positions and k else {}
        tuner.observe(load, k, k * load, int(accepted.sum()), **more)
    return np.array(chosen)


def new_tuner(kind: str = "eagle3") -> Tuner:
    return Tuner(range(K_MAX + 1), TIMES, prior(kind, k_max=K_MAX), kind=kind)


def regret(conditional: list[float], load: int, kind: str, positions: bool, seeds: range = range(2)) -> float:
    """Mean part of the best static k's speed that is lost in rounds 300 to 600."""
    value = speed(conditional, load)
    lost = [1 - value[serve(new_tuner(kind), conditional, load, 600, s, positions)[300:]].mean() / value.max() for s in seeds]
    return float(np.mean(lost))


@pytest.mark.parametrize("load", [1, 8, 128])
@pytest.mark.parametrize("name", CURVES)
def test_counts_by_position_lead_to_the_best_static_k(name: str, load: int) -> None:
    for kind in ("eagle3", "mtp"):
        assert regret(CURVES[name], load, kind, positions=True) < 0.02


@pytest.mark.parametrize("load", [1, 8, 128])
@pytest.mark.parametrize("name", CURVES)
def test_sums_alone_come_near_it(name: str, load: int) -> None:
    assert regret(CURVES[name], load, "eagle3", positions=False) < 0.04


def test_a_shape_change_is_followed() -> None:
    tuner = new_tuner()
    for name in ("flat", "collapse", "flat"):
        chosen = serve(tuner, CURVES[name], 8, 500, 3, positions=True)
        value = speed(CURVES[name], 8)
        assert value[chosen[200:]].mean() > 0.97 * value.max()


@pytest.mark.parametrize("load", [1, 8, 128])
def test_trials_get_rare_and_the_k_that_is_kept_stays(load: int) -> None:
    chosen = serve(new_tuner(), [0.65] * 16, load, 1500, 5, positions=False)[700:]
    kept = [b for (a, b), (_, d) in pairwise(pairwise(chosen)) if b in (a, d)]
    assert np.count_nonzero(np.diff(kept)) <= 5
    share = np.mean([a != b and b != c for (a, b), (_, c) in pairwise(pairwise(chosen))])
    assert share < 0.15


def test_without_trials_none_is_made() -> None:
    tuner = Tuner(range(K_MAX + 1), TIMES, prior("eagle3", k_max=K_MAX), kind="eagle3", explore_every=0, margin=10.0)
    assert np.unique(serve(tuner, CURVES["flat"], 8, 200, 0, positions=False)).size == 1


def test_both_lists_say_the_same() -> None:
    """Requests that accepted 3, 0 and 1 of 3 drafts: position 1 passed twice, 2 and 3 once."""
    a, b = new_tuner(), new_tuner()
    a.observe(3, 3, 9, 4, per_request=[3, 0, 1])
    b.observe(3, 3, 9, 4, per_position=[2, 1, 1])
    np.testing.assert_allclose(a.survival.s, b.survival.s)
    assert a.to_json() == b.to_json()


def test_a_sum_over_one_request_is_its_list() -> None:
    a, b = new_tuner(), new_tuner()
    a.observe(1, 4, 4, 2)
    b.observe(1, 4, 4, 2, per_request=[2])
    assert a.to_json() == b.to_json()


@pytest.mark.parametrize(
    "lists",
    [
        {"per_position": [2, 1]}, {"per_position": [1, 2, 1]}, {"per_position": [2, 1, 2]}, {"per_position": [4, 0, 0]},
        {"per_position": [2, 1, "x"]}, {"per_position": [2, 1, float("nan")]}, {"per_position": 4}, {"per_position": [2, 1, 0]},
        {"per_request": [3, 1]}, {"per_request": [4, 0, 0]}, {"per_request": [3, 0.5, 0.5]}, {"per_request": [1, 1, 1]},
        {"per_request": [3, 0, 1], "per_position": [2, 1, 1]}, {"per_request": [-1, 3, 2]},
    ],
)  # fmt: skip
def test_lists_that_contradict_the_sums_are_refused(lists: dict) -> None:
    tuner = new_tuner()
    before = tuner.to_json()
    with pytest.raises(InputError):
        tuner.observe(3, 3, 9, 4, **lists)
    assert tuner.to_json() == before


def test_a_poll_of_several_rounds_is_forgotten_as_several() -> None:
    once, each = new_tuner(), new_tuner()
    once.observe(4, 2, 80, 40, per_position=[30, 10])
    for _ in range(10):
        each.observe(4, 2, 8, 4, per_position=[3, 1])
    np.testing.assert_allclose(once.survival.s[:2], each.survival.s[:2], rtol=0.02)


@pytest.mark.parametrize("counts", [(1e300, 5e299), (1e9, 0.0), (1e12, 1e12)])
def test_absurd_counts_keep_the_belief_finite(counts: tuple[float, float]) -> None:
    tuner = new_tuner()
    for _ in range(5):
        tuner.observe(1e-3, 2, *counts)
    assert np.all(np.isfinite(tuner.survival.s))
    assert tuner.choose(1) in K
    new_tuner().restore(tuner.to_json())


def test_requests_that_found_no_match_count_as_rounds():
    """An engine counts no drafts for a miss: 6 of 100 requests match, four in five of their drafts are taken."""
    advisor = Advisor("qwen3-8b", "h100_sxm")
    stated, silent = (advisor.tuner("ngram", [100], k_max=8) for _ in range(2))
    for _ in range(60):
        stated.observe(100, 4, 6 * 4, 4.8 * 4, requests=100)
        silent.observe(100, 4, 6 * 4, 4.8 * 4)
    for tuner in (stated, silent):
        assert float(tuner.survival.acceptance_length(4)) == pytest.approx(1 + 0.048 * 4, abs=0.03)
    stated.observe(100, 3, 0, 0, requests=100)
    silent.observe(100, 3, 0, 0)
    eagle = advisor.tuner("eagle3", [8], k_max=8)
    eagle.observe(8, 3, 20, 14, per_position=[8, 4, 2], requests=8)
    for counts in ((3, 20, 14, 6), (3, 0, 0, None)):
        with pytest.raises(InputError, match="requests"):
            eagle.observe(8, *counts[:3], requests=counts[3])


def test_a_tuner_starts_from_the_acceptance_at_its_context():
    head = str(Path(__file__).parents[1] / "data" / "drafter_configs" / "llama3-8B-eagle3.json")
    advisor = Advisor("llama-3.1-8b", "h100_sxm")
    near, far = (advisor.tuner(f"eagle3:{head}", [1, 8], context=context, k_max=8).survival for context in (2048, 30000))
    assert float(far.s[0]) < 0.1 < float(near.s[0])
