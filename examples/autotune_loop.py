"""Choose the draft tokens of every round while serving: ``python examples/autotune_loop.py``.

The server is simulated. In your own loop replace ``serve_round`` by reading the engine's counters: the differences of
drafted and accepted tokens since the last call.
"""

from __future__ import annotations

import numpy as np

import specadvisor as sa


def serve_round(rng: np.random.Generator, requests: int, k: int, conditional: float) -> int:
    """Accepted tokens of one round in which every request drafts ``k``."""
    return int(np.cumprod(rng.random((requests, k)) < conditional, axis=1).sum()) if k else 0


def main() -> None:
    advisor = sa.Advisor("Qwen3-8B", "h100_sxm", engine="vllm")
    tuner = advisor.tuner("eagle3", concurrency=[1, 8, 32, 128, 256], context=2048)
    rng = np.random.default_rng(0)

    print("round  requests  acceptance       k  believed AL(3)")
    for step in range(1200):
        requests = 8 if step < 900 else 256  # a burst of requests at the end
        acceptance = 0.80 if step < 300 or step >= 600 else 0.40  # the text changes twice
        k = tuner.choose(requests)
        accepted = serve_round(rng, requests, k, acceptance)
        tuner.observe(requests, k, drafted=k * requests, accepted=accepted)
        if step % 100 == 99:
            length = float(tuner.survival.acceptance_length(3))
            print(f"{step + 1:5d}  {requests:8d}  {acceptance:10.2f}  {tuner.choose(requests):6d}  {length:14.2f}")

    state = tuner.to_json()  # keep it across restarts: tuner.restore(state)
    print(f"state: {len(state)} bytes of JSON")


if __name__ == "__main__":
    main()
