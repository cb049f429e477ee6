"""The online tuner on simulated traffic: converges, follows a drift, stays put inside the noise."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from specadvisor.acceptance import Survival, from_conditional, prior
from specadvisor.advise.round_times import RoundTimes
from specadvisor.advise.tuner import Tuner
from specadvisor.errors import InputError

K_MAX = 10
K = np.arange(K_MAX + 1)
LOADS = np.array([1.0, 8.0, 32.0, 128.0])
ROUND_S = np.array([10 + 1.0 * K, 11 + 1.1 * K, 13 + 2.0 * K, 20 + 7.0 * K]) * 1e-3
TIMES = RoundTimes(LOADS, ROUND_S)
GOOD = from_conditional([0.80, 0.82, 0.84, *[0.85] * 7])
MIDDLE = from_conditional([0.65] * 10)
POOR = from_conditional([0.40] * 10)


def speed(curve: Survival, load: float) -> np.ndarray:
    return np.asarray(curve.acceptance_length(K) / TIMES.at(load)[0])


def serve(tuner: Tuner, truth: Callable[[int], Survival], load: int, rounds: int, seed: int = 0) -> np.ndarray:
    """The k of every round; each request accepts its drafts one by one, as ``truth`` of that round says."""
    rng = np.random.default_rng(seed)
    chosen = []
    for n in range(rounds):
        k = tuner.choose(load)
        chosen.append(k)
        if k == 0:
            tuner.observe(load, 0, 0, 0)
            continue
        accepted = np.cumprod(rng.random((load, k)) < truth(n).conditional[:k], axis=1).sum()
        tuner.observe(load, k, k * load, int(accepted))
    return np.array(chosen)


def new_tuner() -> Tuner:
    return Tuner(range(K_MAX + 1), TIMES, prior("eagle3"), kind="eagle3")


@pytest.mark.parametrize("load", [1, 8, 32, 128])
@pytest.mark.parametrize("curve", [GOOD, MIDDLE, POOR], ids=["good", "middle", "poor"])
def test_it_converges_to_the_best_static_k_within_300_rounds(curve: Survival, load: int) -> None:
    for seed in (1, 2):
        chosen = serve(new_tuner(), lambda n: curve, load, 500, seed)
        value = speed(curve, load)
        late = value[chosen[300:]]
        assert late.mean() > 0.965 * value.max()


@pytest.mark.parametrize("load", [1, 8, 32])
def test_it_follows_a_drift_there_and_back(load: int) -> None:
    chosen = serve(new_tuner(), lambda n: POOR if 500 <= n < 1100 else GOOD, load, 1700)
    good, poor = speed(GOOD, load), speed(POOR, load)
    assert good[chosen[400:500]].mean() > 0.98 * good.max()
    assert poor[chosen[900:1100]].mean() > 0.97 * poor.max()
    assert good[chosen[1500:]].mean() > 0.97 * good.max()
    assert set(chosen[400:500]).isdisjoint(chosen[1000:1100])


def test_it_does_not_oscillate_inside_the_noise() -> None:
    """On a flat optimum with one request the k that is kept hardly ever changes; single trial rounds are not changes."""
    chosen = serve(new_tuner(), lambda n: MIDDLE, 1, 1500)[500:]
    kept = [k for before, k, after in zip(chosen, chosen[1:], chosen[2:], strict=False) if k in (before, after)]
    assert np.count_nonzero(np.diff(kept)) <= 5
    value = speed(MIDDLE, 1)
    assert value[chosen].mean() > 0.99 * value.max()


def test_it_comes_back_from_no_speculation() -> None:
    costly = RoundTimes(LOADS, np.array([10 + 6.0 * K] * 4) * 1e-3)
    tuner = Tuner(range(K_MAX + 1), costly, prior("eagle3"), kind="eagle3")
    chosen = serve(tuner, lambda n: POOR if n < 400 else from_conditional([0.97] * 10), 8, 1200)
    assert np.mean(chosen[300:400] == 0) > 0.9
    value = np.asarray(from_conditional([0.97] * 10).acceptance_length(K) / costly.at(8)[0])
    assert value[chosen[700:]].mean() > 0.97 * value.max()


def test_loads_share_what_is_learnt() -> None:
    tuner = new_tuner()
    serve(tuner, lambda n: GOOD, 8, 300)
    assert speed(GOOD, 32)[tuner.choose(32)] > 0.97 * speed(GOOD, 32).max()
    assert speed(GOOD, 20)[tuner.choose(20)] > 0.95 * speed(GOOD, 20).max()


def test_prefill_moves_the_choice() -> None:
    """Prefill that every token brings with it caps what speculation can gain: fewer drafts, not more."""
    heavy = RoundTimes(LOADS, ROUND_S, None, np.full(ROUND_S.shape, 0.02))
    plain, loaded = (Tuner(range(K_MAX + 1), times, GOOD) for times in (TIMES, heavy))
    assert loaded.choose(32) <= plain.choose(32)


def test_the_belief_approaches_the_truth() -> None:
    tuner = new_tuner()
    serve(tuner, lambda n: GOOD, 32, 400)
    k = tuner.choose(32)
    belief = tuner.survival
    assert belief.known
    assert float(belief.acceptance_length(k)) == pytest.approx(float(GOOD.acceptance_length(k)), rel=0.05)


def test_threads_may_share_a_tuner() -> None:
    tuner = new_tuner()
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            serve(tuner, lambda n: MIDDLE, 8, 150, seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert tuner.rounds == 4 * 150
    assert speed(MIDDLE, 8)[tuner.choose(8)] > 0.97 * speed(MIDDLE, 8).max()


def test_unreported_rounds_without_drafts_lead_back_to_a_trial() -> None:
    tuner = new_tuner()
    serve(tuner, lambda n: from_conditional([0.3] * 10), 128, 200)
    chosen = [tuner.choose(128) for _ in range(600)]
    assert np.mean(np.array(chosen) == 0) > 0.8
    assert any(chosen)


@pytest.mark.parametrize("load", [0, -5, float("nan"), "8", None, True])
def test_a_load_is_a_number_above_zero(load: object) -> None:
    with pytest.raises(InputError, match="concurrency"):
        new_tuner().choose(load)  # type: ignore[arg-type]


@pytest.mark.parametrize("observation", [(8, 100, 800, 10), (8, 3, [24], [12]), (8, 2.5, 24, 12), ("8", 3, 24, 12)])
def test_observations_of_another_kind_are_refused(observation: tuple) -> None:
    with pytest.raises(InputError):
        new_tuner().observe(*observation)


@pytest.mark.parametrize(
    ("k", "drafted", "accepted"), [(-1, 3, 1), (3, 3, 4), (0, 3, 0), (3, 0, 0), (3, 3, -1)]
)  # fmt: skip
def test_impossible_observations_are_refused(k: int, drafted: int, accepted: int) -> None:
    with pytest.raises(InputError):
        new_tuner().observe(8, k, drafted, accepted)


def test_impossible_tables_and_candidates_are_refused() -> None:
    with pytest.raises(InputError):
        Tuner([0, 11], TIMES, GOOD)
    with pytest.raises(InputError):
        Tuner([], TIMES, GOOD)
    with pytest.raises(InputError):
        RoundTimes(np.array([8.0, 1.0]), ROUND_S[:2])
    with pytest.raises(InputError):
        RoundTimes(LOADS, -ROUND_S)
