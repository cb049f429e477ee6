"""Compare GPUs for one model and load, with and without speculation: ``python examples/which_gpu.py``."""

from __future__ import annotations

import specadvisor as sa

GPUS = ("a100_sxm_80gb", "h100_sxm", "h200_sxm", "b200_sxm")


def main() -> None:
    measured = {"eagle3": sa.fit_acceptance(conditional=[0.74, 0.72, 0.71], rounds=5000).survival}
    print("GPU            requests   plain tok/s   k  gain with EAGLE-3 (80% interval)")
    for gpu in GPUS:
        advisor = sa.Advisor("llama-3.1-8b", gpu, engine="vllm")
        rec = advisor.recommend(
            concurrency=[1, 32, 128], input_tokens=2048, output_tokens=512, drafters="eagle3", acceptance=measured
        )
        for plain, best in zip(rec.plain, rec.leaders, strict=True):
            print(
                f"{gpu:<14} {best.concurrency:8d}  {plain.throughput_tok_s:12,.0f}  {best.k:2d}  "
                f"{best.gain.mid:.2f}x ({best.gain.low:.2f}-{best.gain.high:.2f})"
            )


if __name__ == "__main__":
    main()
