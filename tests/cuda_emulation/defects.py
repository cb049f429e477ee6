"""Defects planted in the attention kernel, and a runner that says which of them the emulation notices.

Run as a script by the test: ``python defects.py library.so`` prints a JSON object, defect -> "noticed: ..." or "passed".
Each defect runs in a fork, because some of them read far outside their buffers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from emulated_kernels import Case, EmulatedLibrary

from specadvisor.calibration.attention_kernel import VARIANTS, Variant
from specadvisor.calibration.checks import BF16_TOLERANCE


class Defect(NamedTuple):
    """Replace ``old`` by ``new`` in the kernel text; ``variant`` is a compilation in which that matters."""

    name: str
    old: str
    new: str
    variant: str = "attention_d128_r16_bf16"


_OUTPUT_ROW = "p.heads + kv_head * group + r % group;\n      *(u32*)(p.out"
DEFECTS = (
    Defect("none", "", ""),
    Defect("none in fp8", "", "", "attention_d64_r16_fp8"),
    Defect("weak wait for the pipeline", "cp_async_wait<STAGES - 2>();", "cp_async_wait<STAGES - 1>();"),
    Defect(
        "no commit without a load", "      cp_async_commit();  // also", "      if (next < end) cp_async_commit();  // also"
    ),
    Defect("no barrier in the main loop", "    __syncthreads();  // tile t landed", "    // tile t landed"),
    Defect("no barrier before the merge", "  __syncthreads();  // the pipeline's", "  // the pipeline's"),
    Defect(
        "no barrier inside the merge",
        "  __syncthreads();\n  for (int x = tid; x < TILE_ROWS",
        "  for (int x = tid; x < TILE_ROWS",
    ),
    Defect("causal mask off by one", "p.query_tokens + r / group : length - 1", "p.query_tokens + r / group + 1 : length - 1"),
    Defect(
        "mask skipped on the tail", "if ((t + 1) * TILE_KEYS > length - p.query_tokens)", "if ((t + 1) * TILE_KEYS > length)"
    ),
    Defect(
        "V read without its swizzle",
        "sv + swizzled(key, d * 2 + (m >> 1)) * 16",
        "sv + (key * ROW_CHUNKS + d * 2 + (m >> 1)) * 16",
    ),
    Defect("V not transposed", "ldmatrix_x4_trans(v, sv + swizzled(key, d * 2", "ldmatrix_x4(v, sv + swizzled(key, d * 2"),
    Defect("K fragments swapped", "mma_bf16(score[j], q, k[0], k[1]);", "mma_bf16(score[j], q, k[0], k[2]);"),
    Defect(
        "P fragments swapped",
        "pack_bf16(score[j][2], score[j][3]),\n                     pack_bf16(score[j + 1][0], score[j + 1][1])",
        "pack_bf16(score[j + 1][0], score[j + 1][1]),\n                     pack_bf16(score[j][2], score[j][3])",
    ),
    Defect("row sum of one lane", "float sum = quad_sum(row_sum[h]);", "float sum = row_sum[h];"),
    Defect(
        "keys past the end not zeroed",
        "cp_async16(sv + swizzled(row, chunk) * 16, p.v + offset, inside);",
        "cp_async16(sv + swizzled(row, chunk) * 16, "
        "p.v + ((cache_row(p, b, first_key + row) * p.kv_heads + kv_head) * HEAD_DIM) * KV_BYTES + chunk * 16, true);",
    ),
    Defect(
        "packed rows read by head first",
        "int token = inside ? r / group : 0, head = kv_head * group + (inside ? r % group : 0);",
        "int token = inside ? r % p.query_tokens : 0, head = kv_head * group + (inside ? r / p.query_tokens : 0);",
    ),
    Defect("accumulator not rescaled", "acc[i][2 * h] *= rescale;", "acc[i][2 * h] *= 1.f;"),
    Defect("empty split left unwritten", "if (d == 0) p.partial_lse[row] =", "if (d == 0 && begin < end) p.partial_lse[row] ="),
    Defect("diverged barrier", "  __syncthreads();  // the pipeline's", "  if (warp) __syncthreads();  // the pipeline's"),
    Defect("page offset dropped", "* p.page_size + key % p.page_size;", "* p.page_size;"),
    Defect(
        "page table of the first sequence",
        "p.block_table[b * p.max_pages + key / p.page_size]",
        "p.block_table[key / p.page_size]",
    ),
    Defect("log-sum-exp without its logarithm", "top + fast_log2(total)", "top + total"),
    Defect(
        "splits merged without weights",
        "float weight = fast_exp2(p.partial_lse[s * stride + row] - shift);",
        "float weight = 1.f;",
    ),
    Defect("unsplit output of the wrong head", _OUTPUT_ROW, _OUTPUT_ROW.replace("r % group", "(r + 1) % group")),
    Defect("E4M3 even and odd swapped", "* 2 + (i & 1) : i * 8", "* 2 + (1 - (i & 1)) : i * 8", "attention_d64_r16_fp8"),
    Defect(
        "E4M3 high pair from the low",
        "((w >> 16) & 0xffu) | ((w >> 8)",
        "((w >> 24) & 0xffu) | ((w >> 8)",
        "attention_d64_r16_fp8",
    ),
    Defect(
        "E4M3 values without swizzle",
        "swizzled(key, d + (m >> 1))",
        "(key * ROW_CHUNKS + d + (m >> 1))",
        "attention_d64_r16_fp8",
    ),
    Defect(
        "query rows share a row in shared memory",
        "(row_warp * 16 + gid) * QUERY_STRIDE",
        "gid * QUERY_STRIDE",
        "attention_d256_r64_bf16",
    ),
)
HARMLESS = ("none", "none in fp8")
_KERNEL_NAMES = {defect.name: f"defect_{i}" for i, defect in enumerate(DEFECTS)}


def kernel_name(defect: Defect) -> str:
    return _KERNEL_NAMES[defect.name]


def variant_of(defect: Defect) -> Variant:
    return next(v for v in VARIANTS if v.name == defect.variant)


def outcome(library: EmulatedLibrary, defect: Defect) -> str:
    """``passed``, or what gave the defect away."""
    variant = variant_of(defect)
    tokens = 5 if variant.tile_rows == 16 else 13
    for splits, page in ((1, 0), (4, 0), (2, 16)):
        case = Case(
            np.random.default_rng(1),
            variant,
            query_tokens=tokens,
            heads=8,
            kv_heads=2,
            lengths=[257, 70],
            splits=splits,
            page_size=page,
        )
        try:
            error = case.error(library, kernel_name(defect))
        except RuntimeError as failure:
            return f"noticed: {failure}"
        if not error < BF16_TOLERANCE:
            return f"noticed: relative error {error:.2g}"
    return "passed"


def forked(library: EmulatedLibrary, defect: Defect) -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, outcome(library, defect).encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 1000).decode()
    os.close(read)
    _, status = os.waitpid(child, 0)
    return text or f"noticed: crashed with status {status}"


if __name__ == "__main__":
    built = EmulatedLibrary(Path(sys.argv[1]))
    print(json.dumps({defect.name: forked(built, defect) for defect in DEFECTS}))
