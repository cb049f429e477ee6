"""What nobody has published: GQA verify attention with several query tokens on a long cache, on one H200.

    python benchmarks/gpu/h200.py --out "$OUT"              # under four minutes on an H200
    python benchmarks/gpu/h200.py --out "$OUT" --small      # a corner of every section

Needs this package, cuda-python, NVRTC and cuBLASLt (both come with torch); torch itself for the comparison. Correctness first:
a kernel that does not match float64 ends the run. Then sections in order of worth, each written to ``verify.csv`` when it is
done, until ``--budget`` seconds are used. ``verify.json`` is the profile fitted from the rows, ``report.md`` says where the
time steps with the packed rows G x query tokens, beside the tiles that the kernel has (guidelines 2 and 3).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from specadvisor.calibration import driver, memory_bench, nvml, save
from specadvisor.calibration.attention_bench import Attention, measure_attention
from specadvisor.calibration.attention_kernel import VARIANTS
from specadvisor.calibration.build_profile import build_profile
from specadvisor.calibration.engine_attention import KERNELS, check_kernel
from specadvisor.calibration.gemm_bench import check_product, measure_products, open_library
from specadvisor.calibration.gemm_formats import recipes_for
from specadvisor.calibration.operands import Bench
from specadvisor.calibration.plan import FEW_ROWS, ROWS, SHAPES, AttentionPoint, GemmPoint, memory_sizes
from specadvisor.calibration.rows import Row, row
from specadvisor.calibration.run import Run
from specadvisor.calibration.timing import Effort, rotation
from specadvisor.calibration.torch_timing import measure_torch
from specadvisor.errors import SpecadvisorError
from specadvisor.hardware import load_gpu

BATCHES, GROUPS, QUERY_TOKENS, CONTEXTS = (1, 8, 32, 128), (1, 4, 8), (1, 2, 4, 8, 16, 32), (2048, 8192, 32768)


def grid(kv_format: str, small: bool) -> list[AttentionPoint]:
    batches, groups, tokens, contexts = (s[::3] if small else s for s in (BATCHES, GROUPS, QUERY_TOKENS, CONTEXTS))
    return [AttentionPoint(b, q, s, g, kv_format=kv_format) for s in contexts for b in batches for g in groups for q in tokens]


def choices(small: bool) -> list[AttentionPoint]:
    """The same work with every tile and without split: what a kernel pays that chooses otherwise."""
    tokens = (4, 16) if small else QUERY_TOKENS
    tiles = [AttentionPoint(8, q, 8192, 8, tile_rows=t) for q in tokens for t in (16, 64, 128)]
    unsplit = [AttentionPoint(b, q, 8192, 8, split=False) for b in (1, 8) for q in tokens]
    return [*tiles, *unsplit, *(AttentionPoint(8, q, 8192, 8, page_size=16) for q in tokens)]


class Session:
    """The open device, what was measured so far, and the time left."""

    def __init__(self, device: driver.Device, out: Path, budget_s: float, small: bool) -> None:
        self.device, self.out, self.small = device, out, small
        self.end = time.perf_counter() + budget_s
        self.run = Run(stand_in=driver.is_stand_in(), conditions={"device": device.name, **nvml.facts(device.uuid)})
        self.bench = Bench(device)
        self.attention = Attention(self.bench)
        self.library = open_library(self.bench)
        self.recipes = [r for r in recipes_for(device.compute_capability) if r.format in ("bf16", "fp8", "fp8_block")]

    def check(self) -> None:
        memory_bench.check_copy(self.bench)
        for recipe in self.recipes:
            check_product(self.bench, self.library, recipe)
        for variant in (v for v in VARIANTS if v.head_dim == 128):
            self.attention.load(variant)
        memory_bench.warm_up(self.bench)
        print("correctness: every kernel matches float64", flush=True)

    def section(self, name: str, need_s: float, measure: Callable[[], tuple[list[Row], list[str]]]) -> None:
        """Measure if ``need_s`` are left, and write what there is."""
        if self.end - time.perf_counter() < need_s:
            self.run.notes.append(f"{name}: skipped, the time was used up")
            return
        start = time.perf_counter()
        with nvml.sampled(self.device.uuid) as clocks:
            try:
                rows, notes = measure()
            except SpecadvisorError as error:
                rows, notes = [], [f"{name}: {error}"]
        self.run.rows += rows
        self.run.notes += notes
        self.run.conditions.setdefault("clocks", {})[name] = {**clocks.summary(), "throttled": clocks.spoiled}
        save.write_together({self.out / "verify.csv": save.rows_text(self.run)})
        print(f"{name}: {len(rows)} rows in {time.perf_counter() - start:.1f} s", flush=True)

    def verify(self, points: list[AttentionPoint]) -> tuple[list[Row], list[str]]:
        return measure_attention(self.bench, self.attention, points, lambda: None)

    def products(self, index: int) -> tuple[list[Row], list[str]]:
        recipe, rows = self.recipes[index], ROWS if index == 0 else FEW_ROWS
        shapes, rows = (SHAPES[:1], rows[:3]) if self.small else (SHAPES, rows)
        points = [GemmPoint(recipe.format, m, n, k) for n, k in shapes for m in rows]
        return measure_products(self.bench, self.library, recipe, points, lambda: None, "vllm")

    def torch_attention(self) -> tuple[list[Row], list[str]]:
        """torch's FlashAttention-2, the only other kernel that is sure to be there."""
        try:
            import torch
        except ImportError:
            return [], ["torch attention: torch is not installed"]
        kernel = next(k for k in KERNELS if k.module == "torch")
        check_kernel(torch, kernel, 128)
        rows = []
        for b, s in ((1, 32768), (8, 8192), (32, 8192)):
            for g in GROUPS[1:]:
                for q in QUERY_TOKENS:
                    point = AttentionPoint(b, q, s, g)
                    sets = rotation(point.cache_bytes, self.device.l2_bytes)
                    call = kernel.calls(torch, point, sets)
                    timing = measure_torch(torch, call, sets, Effort(budget_s=0.06))
                    shape = {"batch": b, "query_tokens": q, "context": s, "heads": 8 * g, "kv_heads": 8, "head_dim": 128}
                    facts = {"engine": "transformers", "kernel": kernel.name, "auto": False, "sets": sets}
                    rows.append(row("attention", "bf16", timing, **facts, **shape))
        return rows, []


def steps(rows: list[Row]) -> str:
    """Per place and group: time over that of one query token, by packed rows; and the tile the kernel took."""
    lines = [
        "| KV | batch | context | G | us at q=1 | time over q=1 at packed rows (tile, splits) |",
        "|---|---|---|---|---|---|",
    ]
    grid_rows = [r for r in rows if r.operator == "attention" and r.auto and not r.page_size and r.heads and r.kv_heads]
    places = dict.fromkeys((r.format, r.batch, r.context, r.heads // r.kv_heads) for r in grid_rows if r.heads and r.kv_heads)
    for place in places:
        here = [r for r in grid_rows if (r.format, r.batch, r.context, (r.heads or 0) // (r.kv_heads or 1)) == place]
        here.sort(key=lambda r: r.query_tokens or 0)
        cells = [f"{(r.query_tokens or 0) * place[3]}: {r.us / here[0].us:.2f} ({r.tile_rows}, {r.splits})" for r in here]
        lines.append("| " + " | ".join(map(str, (*place, f"{here[0].us:.1f}", ", ".join(cells)))) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=200.0, help="seconds; sections that no longer fit are skipped")
    parser.add_argument("--gpu", default="h200_sxm")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    gpu = load_gpu(options.gpu)
    with driver.opened() as device:
        s = Session(device, options.out, options.budget, options.small)
        s.check()
        s.section("verify bf16", 45, lambda: s.verify(grid("bf16", s.small)))
        s.section("bandwidth", 4, lambda: (memory_bench.bandwidth(s.bench, memory_sizes(s.small), lambda: None), []))
        s.section("launch floor", 2, lambda: (memory_bench.launch_floor(s.bench, lambda: None), []))
        s.section("GEMM bf16", 20, lambda: s.products(0))
        s.section("tiles, no split, pages", 8, lambda: s.verify(choices(s.small)))
        s.section("verify fp8", 35, lambda: s.verify(grid("fp8", s.small)))
        s.section("GEMM fp8", 12, lambda: s.products(1))
        s.section("GEMM fp8 block", 12, lambda: s.products(2))
        s.section("torch attention", 15, s.torch_attention)
        s.run.conditions["sm_clock_mhz_in_kernel"] = round(memory_bench.clock_hz(s.bench) / 1e6)
        s.library.close()
    profile, notes = build_profile(s.run, gpu)
    s.run.notes += notes
    save.save(s.run, profile, gpu, options.out / "verify.json")
    title = f"# {device.name}{' (stand-in driver: every time is invented)' if s.run.stand_in else ''}"
    report = [title, "", *(f"- {note}" for note in s.run.notes), "", steps(s.run.rows), ""]
    (options.out / "report.md").write_text("\n".join(report), encoding="utf-8")
    print("\n".join(report[:12]))
    for entry in profile.entries:
        print(f"{entry.operator} {entry.format} {entry.kernel}: median {entry.median_error:.1%}, p90 {entry.p90_error:.1%}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SpecadvisorError as error:
        sys.exit(f"{error}")
