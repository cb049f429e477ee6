"""4-bit products and mixtures of experts through fakes with the real signatures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_engines.loading import loaded

from specadvisor.calibration.checks import CheckFailed
from specadvisor.calibration.engine_moe import MOE_KERNELS, check_moe_kernel
from specadvisor.calibration.engine_weights import (
    _SGLANG_MODULES,
    W4A16_KERNELS,
    Quantised,
    WeightKernel,
    check_weight_kernel,
)

IDS = [f"{k.engine} {k.name}" for k in W4A16_KERNELS]


@pytest.fixture(autouse=True)
def fakes() -> Iterator[Any]:
    with loaded() as kernels:
        yield kernels


@pytest.mark.parametrize("kernel", W4A16_KERNELS, ids=IDS)
def test_products_match_float64(kernel: WeightKernel) -> None:
    import torch

    check_weight_kernel(torch, kernel)


@pytest.mark.parametrize("kernel", W4A16_KERNELS, ids=IDS)
def test_a_wrong_zero_point_is_noticed(kernel: WeightKernel, fakes: Any) -> None:
    import torch

    fakes.planted.add("zero point")
    with pytest.raises(CheckFailed, match="W4A16"):
        check_weight_kernel(torch, kernel)


def test_dequantisation_by_hand() -> None:
    import torch

    packed = torch.from_numpy(np.full((16, 1), 0x76543210, np.int32))
    weight = Quantised(torch, 1, 128, packed, torch.from_numpy(np.full((1, 1), 0.5, np.float32)))
    assert weight.dequantised()[:9, 0].tolist() == [-4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, -4.0]


@pytest.mark.parametrize(("product", "repacking"), _SGLANG_MODULES[1:])
def test_newer_sgl_kernel_leaves_marlin_to_sglang(monkeypatch: pytest.MonkeyPatch, product: str, repacking: str) -> None:
    import sgl_kernel
    import torch

    for module, function in ((product, "gptq_marlin_gemm"), (repacking, "gptq_marlin_repack")):
        parents = module.split(".")
        for depth in range(2, len(parents)):
            monkeypatch.setitem(sys.modules, ".".join(parents[:depth]), ModuleType(module))
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{function: getattr(sgl_kernel, function)}))
        monkeypatch.delattr(sgl_kernel, function)
    check_weight_kernel(torch, next(k for k in W4A16_KERNELS if k.engine == "sglang"))


def test_without_marlin_anywhere_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sgl_kernel
    import torch

    monkeypatch.delattr(sgl_kernel, "gptq_marlin_gemm")
    with pytest.raises(ImportError, match="neither sgl_kernel nor sglang"):
        check_weight_kernel(torch, next(k for k in W4A16_KERNELS if k.engine == "sglang"))


def test_an_older_vllm_gets_an_empty_activation_order(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from vllm import _custom_ops
    from vllm.model_executor.layers.quantization.utils import marlin_utils

    repack, apply, seen = _custom_ops.gptq_marlin_repack, marlin_utils.apply_gptq_marlin_linear, []

    def older_repack(b_q_weight: Any, perm: Any, size_k: int, size_n: int, num_bits: int) -> Any:
        seen.append(perm.shape)
        return repack(b_q_weight, size_k, size_n, num_bits)

    def older_apply(
        input: Any, weight: Any, weight_scale: Any, weight_zp: Any, g_idx: Any, g_idx_sort_indices: Any, workspace: Any,
        wtype: Any, output_size_per_partition: int, input_size_per_partition: int, is_k_full: bool,
    ) -> Any:  # fmt: skip
        seen.append((g_idx.shape, g_idx_sort_indices.shape, is_k_full))
        sizes = output_size_per_partition, input_size_per_partition
        return apply(input, weight, weight_scale, weight_zp, workspace, wtype, *sizes)

    monkeypatch.setattr(_custom_ops, "gptq_marlin_repack", older_repack)
    monkeypatch.setattr(marlin_utils, "apply_gptq_marlin_linear", older_apply)
    check_weight_kernel(torch, next(k for k in W4A16_KERNELS if (k.engine, k.name) == ("vllm", "Marlin")))
    assert seen == [(0,), ((0,), (0,), True)]


def test_the_mixture_matches_float64() -> None:
    import torch

    check_moe_kernel(torch, MOE_KERNELS[0])


@pytest.mark.parametrize("defect", ["normalised weights", "up before gate"])
def test_defects_of_the_mixture_are_noticed(defect: str, fakes: Any) -> None:
    import torch

    fakes.planted.add(defect)
    with pytest.raises(CheckFailed, match="fused_experts"):
        check_moe_kernel(torch, MOE_KERNELS[0])
