"""Choose the draft tokens of every round while serving: ``python examples/autotune_loop.py``.

The server is simulated. In your own loop replace ``serve_round`` by reading the engine's counters: the differences of
drafted and accepted tokens since the last call, and of the accepted tokens by position where the engine counts them
(vLLM: ``vllm:spec_decode_num_accepted_tokens_per_pos``). Sums alone work too; the tuner then needs more rounds.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

import specadvisor as sa

TEXTS = {
    "code": [0.82, 0.84, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85],
    "chat": [0.62, 0.45, 0.40, 0.40, 0.40, 0.40, 0.40, 0.40, 0.40, 0.40],
}


def serve_round(rng: np.random.Generator, requests: int, k: int, conditional: list[float]) -> list[int]:
    """Accepted drafts at position 1..k of one round in which every request drafts ``k``."""
    hits = rng.random((requests, k)) < np.array(conditional[:k])
    return [int(count) for count in np.cumprod(hits, axis=1).sum(axis=0)]


def main() -> None:
    advisor = sa.Advisor("Qwen3-8B", "h100_sxm", engine="vllm")
    tuner = advisor.tuner("eagle3", concurrency=[1, 8, 32, 128, 256], context=2048, k_max=10)
    rng = np.random.default_rng(0)

    print("round  requests  text  k in the last 100 rounds    believed AL(3)")
    chosen: Counter[int] = Counter()
    for step in range(1200):
        requests = 8 if step < 900 else 256  # a burst of requests at the end
        text = "code" if step < 300 or step >= 600 else "chat"  # the text changes twice
        k = tuner.choose(requests)
        positions = serve_round(rng, requests, k, TEXTS[text])
        tuner.observe(requests, k, drafted=k * requests, accepted=sum(positions), per_position=positions or None)
        chosen[k] += 1
        if step % 100 == 99:
            length = float(tuner.survival.acceptance_length(3))
            often = ", ".join(f"{k}: {rounds}" for k, rounds in chosen.most_common(3))
            print(f"{step + 1:5d}  {requests:8d}  {text}  {often:26s}  {length:14.2f}")
            chosen.clear()

    state = tuner.to_json()  # keep it across restarts: tuner.restore(state)
    print(f"state: {len(state)} bytes of JSON")


if __name__ == "__main__":
    main()
