"""How each weight format runs on cuBLASLt: operand types, block scales, and the GPUs that have the instructions.

Sources: cublasLt.h of CUDA 13 (enumerations), the cuBLAS documentation's table of narrow-precision scaling modes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specadvisor.calibration import reference
from specadvisor.ranges import FloatArray

BF16, E4M3, E2M1 = 14, 28, 33  # cudaDataType_t
# cublasLtMatmulMatrixScale_t
SCALE_SCALAR, SCALE_16_UE4M3, SCALE_32_UE8M0, SCALE_ROW, SCALE_1X128, SCALE_128X128 = 0, 1, 2, 3, 4, 5
# Random bits under this mask are E4M3 below 2 in magnitude and never NaN.
E4M3_MASK = 0xBFBFBFBF


@dataclass(frozen=True, slots=True)
class Recipe:
    """``format`` as the profiles spell it; ``capabilities`` are the first and last compute capability that has it.

    M is padded to ``row_multiple``, as the engines do where cuBLASLt asks for it.
    """

    format: str
    data_type: int
    weight_scale: int | None = None
    input_scale: int | None = None
    fast_accumulation: bool = False
    capabilities: tuple[int, int] = (80, 999)
    row_multiple: int = 1

    @property
    def element_bytes(self) -> float:
        return {BF16: 2.0, E4M3: 1.0, E2M1: 0.5}[self.data_type]

    def scale_bytes(self, rows: int, k: int, weight: bool) -> int:
        """Bytes of the scale factors of a K-major operand with ``rows`` rows, padding of the tiled layouts included."""
        mode = self.weight_scale if weight else self.input_scale
        if mode is None:
            return 0
        if mode == SCALE_SCALAR:
            return 4
        if mode == SCALE_ROW:
            return 4 * rows
        if mode == SCALE_128X128:
            return 4 * _up(-(-rows // 128), 4) * _up(-(-k // 128), 4)
        if mode == SCALE_1X128:
            return 4 * _up(rows, 4) * _up(-(-k // 128), 4)
        vector = 16 if mode == SCALE_16_UE4M3 else 32
        return _up(rows, 128) * _up(-(-k // vector), 4)  # scales lie in tiles of 128 rows by 4

    def padded(self, m: int) -> int:
        """Rows of a product that is asked for ``m`` of them."""
        return _up(m, self.row_multiple)

    @property
    def unit_scale_byte(self) -> int | None:
        """The byte that means 1.0 where scales are one byte wide, else ``None`` (they are floats)."""
        return {SCALE_16_UE4M3: 0x38, SCALE_32_UE8M0: 0x7F}.get(self.weight_scale if self.weight_scale is not None else -1)

    def decoded(self, raw: NDArray[np.uint8]) -> FloatArray:
        """Values of raw operand bytes [rows, bytes per row]; the last axis becomes K elements."""
        if self.data_type == BF16:
            return reference.from_bf16(raw.view(np.uint16))
        return reference.from_e4m3(raw) if self.data_type == E4M3 else reference.from_e2m1(raw)


def _up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple


RECIPES = (
    Recipe("bf16", BF16),
    Recipe("fp8", E4M3, SCALE_SCALAR, SCALE_SCALAR, True, (89, 999)),
    # 128-element block scaling exists in cuBLASLt for Hopper only, without fast accumulation and for multiples of 4 rows (the
    # checks of PyTorch's and vLLM's callers).
    Recipe("fp8_block", E4M3, SCALE_128X128, SCALE_1X128, False, (90, 90), row_multiple=4),
    Recipe("mxfp8", E4M3, SCALE_32_UE8M0, SCALE_32_UE8M0, False, (100, 999)),
    Recipe("nvfp4", E2M1, SCALE_16_UE4M3, SCALE_16_UE4M3, False, (100, 999)),
)


def recipes_for(compute_capability: int) -> list[Recipe]:
    """The formats that a GPU of this compute capability can be asked for."""
    return [r for r in RECIPES if r.capabilities[0] <= compute_capability <= r.capabilities[1]]
