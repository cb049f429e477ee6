"""Does a calibration predict shapes it has not seen? Calibrates this machine's processor, and measures other shapes
before and after (the faster time counts).

Prints the error of the predicted time by number of rows and fails above 15% median (exit code 2: the machine was too busy
to tell). Run it on an otherwise idle machine, or
with OPENBLAS_NUM_THREADS=1 on a busy one (threads that wait for each other suffer most from other programs):

    python benchmarks/cpu_calibration.py            # about two minutes
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.cpu_machine import EFFORT
from specadvisor.calibration.cpu_run import FORMAT, measure_plan
from specadvisor.calibration.entry import calibrate
from specadvisor.calibration.plan import GemmPoint, Plan, Section
from specadvisor.calibration.rows import Row
from specadvisor.hardware import load_gpu
from specadvisor.kernels.gemm import gemm_s

UNSEEN_SHAPES = ((1536, 3072), (3072, 3072), (6144, 1536), (1280, 5120))
UNSEEN_ROWS = (1, 3, 6, 10, 20, 40, 80, 160)
LIMIT = 0.15
BUSY = 0.2


def measure_unseen(plan: Plan) -> list[Row]:
    return measure_plan(plan, "llama_cpp", lambda done_s, what: None, EFFORT)


def main() -> int:
    points = tuple(GemmPoint(FORMAT, m, n, k) for n, k in UNSEEN_SHAPES for m in UNSEEN_ROWS)
    unseen = Plan((Section("unseen", "gemm", points, 1.0),))
    before = measure_unseen(unseen)
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = calibrate(device="cpu", out=folder)
        except Unreliable as error:
            print(f"not valid: {error}")
            return 2
        machine = load_gpu(str(done.path))
    after = measure_unseen(unseen)
    measured = [min(pair, key=lambda r: r.us) for pair in zip(before, after, strict=True)]
    for note in done.notes:
        print(f"note: {note}")
    moved = np.median([max(a.us, b.us) / min(a.us, b.us) - 1 for a, b in zip(before, after, strict=True)])
    print(f"the unseen products moved by {moved:.0%} (median) between before and after the calibration")
    m, n, k, us = (np.array([getattr(r, name) for r in measured], float) for name in ("m", "n", "k", "us"))
    predicted = gemm_s(machine, m, n, k, FORMAT, "llama_cpp") * 1e6
    error = np.abs(predicted / us - 1.0)
    print(f"{machine.name}: {machine.memory_bytes_per_s / 1e9:.0f} GB/s, {machine.peaks['bf16'] / 1e9:.0f} GFLOP/s")
    print("rows  median error  (predicted / measured us per shape)")
    for rows in UNSEEN_ROWS:
        here = m == rows
        pairs = ", ".join(f"{p:.0f}/{t:.0f}" for p, t in zip(predicted[here], us[here], strict=True))
        print(f"{rows:4d}  {np.median(error[here]):11.1%}  {pairs}")
    print(f"all: median {np.median(error):.1%}, 90th percentile {np.quantile(error, 0.9):.1%} on {len(error)} unseen products")
    if moved > BUSY:
        print(f"not valid: the machine itself moved by more than {BUSY:.0%}; run again when it is idle")
        return 2
    return 0 if np.median(error) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
