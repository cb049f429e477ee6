"""Every engine's attention call against fakes with the real signatures: right results pass, planted defects do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_engines.loading import loaded

from specadvisor.calibration.checks import CheckFailed
from specadvisor.calibration.engine_attention import KERNELS, EngineKernel, check_kernel
from specadvisor.calibration.engine_calls import _draft_mask
from specadvisor.calibration.plan import AttentionPoint
from specadvisor.calibration.timing import Effort
from specadvisor.calibration.torch_timing import measure_torch
from specadvisor.hardware import load_gpu
from specadvisor.serving import load_engine

CASES = [(kernel, kv_format) for kernel in KERNELS for kv_format in kernel.formats]
# One of each way to call; the others differ in page size and GPU.
WAYS = list({kernel.prepare: kernel for kernel in KERNELS}.values())


def named(value: Any) -> str:
    return f"{value.engine} {value.name} {value.capabilities[0]}" if isinstance(value, EngineKernel) else str(value)


@pytest.fixture(autouse=True)
def fakes() -> Iterator[Any]:
    with loaded() as kernels:
        yield kernels


@pytest.mark.parametrize(("kernel", "kv_format"), CASES, ids=named)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_calls_give_the_right_result(kernel: EngineKernel, kv_format: str, head_dim: int) -> None:
    import torch

    check_kernel(torch, kernel, head_dim, kv_format)


@pytest.mark.parametrize("defect", ["scale", "non-causal", "page order"])
@pytest.mark.parametrize("kernel", WAYS, ids=named)
def test_planted_defects_are_noticed(kernel: EngineKernel, defect: str, fakes: Any) -> None:
    import torch

    fakes.planted.add(defect)
    if defect == "page order" and not kernel.page:
        check_kernel(torch, kernel, 128)  # a contiguous cache has no pages to mix up
        return
    with pytest.raises(CheckFailed, match=kernel.name):
        check_kernel(torch, kernel, 128, kernel.formats[-1])


@pytest.mark.parametrize("kernel", WAYS, ids=named)
def test_times_are_those_of_the_clock(kernel: EngineKernel, fakes: Any) -> None:
    import torch

    point = AttentionPoint(2, 4, 256, 4, 2, 64, kernel.formats[-1])
    timing = measure_torch(torch, kernel.calls(torch, point, 3), 3, Effort(budget_s=0.01))
    assert timing.median_s == pytest.approx(fakes.FLOOR_S + point.cache_bytes / fakes.BYTES_PER_S)
    assert timing.calls % 3 == 0
    assert timing.converged


def test_draft_mask_is_causal_and_padded_to_32_bits() -> None:
    assert _draft_mask(3).tolist() == [[1, 0], [3, 0], [7, 0]]
    wide = np.unpackbits(_draft_mask(40).view(np.uint8), axis=1, bitorder="little")
    assert wide.shape == (40, 64)
    assert (wide == np.tri(40, 64)).all()


GPUS = {80: "a100_sxm_80gb", 89: "l40s", 90: "h200_sxm", 100: "b200_sxm", 120: "rtx_pro_6000_server"}


# vLLM 0.33 reads an 8-bit cache on workstation Blackwell with XQA, its facts still name FlashInfer's other kernel there.
KNOWN = [(kernel, kv_format) for kernel, kv_format in CASES if (kernel.engine, kernel.name) != ("vllm", "XQA")]


@pytest.mark.parametrize(("kernel", "kv_format"), KNOWN, ids=named)
def test_tiles_are_those_of_the_engines_facts(kernel: EngineKernel, kv_format: str) -> None:
    """Fit and prediction must lay rows over the same tiles."""
    engine = load_engine(kernel.engine)
    for capability, name in GPUS.items():
        for head_dim in (64, 128, 256):
            if kernel.capabilities[0] <= capability <= kernel.capabilities[1]:
                backend = engine.attention_backend(load_gpu(name), head_dim, kv_format=kv_format)
                taken = {kernel.tile_rows(rows, head_dim) for rows in range(1, 513)}
                assert taken == set(backend.tile_rows), (name, head_dim)
                assert kernel.packs == backend.packs
