"""Speed of the command and of the grid, as ratios in one run: ``python benchmarks/speed.py``.

Whole processes are timed as the best of several starts, with bytecode as an installation writes it; the reference
processes only import what the command cannot avoid. The grid is evaluated through the API, drafter x k x concurrency x context.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

STARTS = 15
HELP_LIMIT, RECOMMEND_LIMIT, POINTS_PER_S_LIMIT, CHOOSE_LIMIT_US = 1.5, 2.5, 500_000, 50.0
DRAFTERS = 15
K = 33
CONCURRENCY = 64
CONTEXT = 16


def best_s(run: Callable[[], object], repeats: int) -> float:
    """Shortest of ``repeats`` wall times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def process_s(*arguments: str) -> float:
    """Shortest wall time of starting Python with ``arguments``."""
    return best_s(lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL), STARTS)


def grid_points_per_s() -> tuple[int, float]:
    """(points, points per second) of 15 drafters x k 0..32 x 64 concurrencies x 16 contexts."""
    from dataclasses import replace

    import specadvisor as sa
    from specadvisor.drafters import load_drafter

    advisor = sa.Advisor("qwen3-8b", "h200_sxm")
    kinds = ["eagle3", "eagle3_1", "dflash", "dspark", "ngram", "suffix", "p_eagle", "pard", "draft_model"]
    names = [f"{kinds[i % len(kinds)]} {i}" for i in range(DRAFTERS)]
    drafters = [
        replace(load_drafter(name.split()[0], advisor.deployment.model), name=name, k_max=K - 1, k_multiple=1) for name in names
    ]
    users = np.unique(np.geomspace(1, 4 * CONCURRENCY, 3 * CONCURRENCY).round().astype(int))[:CONCURRENCY].tolist()
    contexts = (512 * np.arange(1, CONTEXT + 1)).tolist()
    table = advisor.sweep(drafters, None, users, contexts)
    seconds = best_s(lambda: advisor.sweep(drafters, None, users, contexts), 3)
    return len(table), len(table) / seconds


def choose_us() -> tuple[float, float]:
    """Median microseconds of one choice of the tuner (while speculating, while k = 0); each choice is timed on its own."""
    import specadvisor as sa

    tuner = sa.Advisor("qwen3-8b", "h200_sxm").tuner("eagle3", [1, 8, 32, 128])
    tuner.observe(8, 3, 24, 15)
    running = median_us(lambda: tuner.choose(8))
    while tuner.choose(128) or tuner.choose(128):
        tuner.observe(128, 1, 128, 0)
    return running, median_us(lambda: tuner.choose(128))


def median_us(call: Callable[[], object], calls: int = 4000) -> float:
    """Median microseconds of one ``call``."""
    times = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / 1e3


def main() -> int:
    """Print every figure with its limit; 1 where one is missed."""
    compileall.compile_dir(Path(__file__).parents[1] / "specadvisor", quiet=1)
    plain = process_s("-c", "import typer, rich")
    numeric = process_s("-c", "import numpy, typer, rich")
    helped = process_s("-m", "specadvisor", "--help")
    recommended = process_s("-m", "specadvisor", "recommend", "--model", "qwen3-32b", "--gpu", "h100_sxm")
    points, rate = grid_points_per_s()
    choice, idle_choice = choose_us()
    rows = [
        ("--help / import typer, rich", helped / plain, HELP_LIMIT, helped / plain <= HELP_LIMIT),
        (
            "recommend / import numpy, typer, rich",
            recommended / numeric,
            RECOMMEND_LIMIT,
            recommended / numeric <= RECOMMEND_LIMIT,
        ),
        ("tuner choose, median us", choice, CHOOSE_LIMIT_US, choice < CHOOSE_LIMIT_US),
        ("tuner choose while k = 0, median us", idle_choice, CHOOSE_LIMIT_US, idle_choice < CHOOSE_LIMIT_US),
        (f"grid of {points:,} points, points/s", rate, POINTS_PER_S_LIMIT, rate >= POINTS_PER_S_LIMIT),
    ]
    for name, value, limit, good in rows:
        print(f"{name:42s} {value:12,.2f}   limit {limit:9,.1f}   {'ok' if good else 'MISSED'}")
    print(f"seconds: --help {helped:.3f}, recommend {recommended:.3f}, references {plain:.3f} and {numeric:.3f}")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
