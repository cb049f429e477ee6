"""Number formats of weights and KV caches: bytes per element, and the peak that multiplies them.

Bytes include block scales. Sources: NVFP4 0.5 + 1/16 (one E4M3 scale per 16 values), MXFP4 0.5 + 1/32 and MXFP8
1 + 1/32 (OCP microscaling formats), W4A16 0.5 + 2/group (GPTQ/AWQ, group 128;
``w4a16_g32`` group 32), W4A16_NVFP4 is NVFP4 weights under 16-bit products, bitsandbytes NF4 with double
quantisation 0.516; GGUF block types: bits per weight of llama.cpp's ``ggml-quants`` block layouts, and for the
``*_m``/``*_xl`` mixtures the usual average over a file.
"""

from __future__ import annotations

from dataclasses import dataclass

from specadvisor.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """``compute`` names the peak that runs the product (``bf16``, ``fp8``, ``int8``, ``fp4``);

    ``kernel`` the family of kernels that shares fitted parameters (several GGUF types share one kernel law).
    """

    id: str
    bytes_per_weight: float
    compute: str
    activation_bytes: float
    kernel: str


def _gguf(id_: str, bits: float) -> WeightFormat:
    return WeightFormat(id_, bits / 8, "int8" if bits < 16 else "bf16", 2.0, "gguf" if bits < 16 else "bf16")


_GGUF_BITS = {
    "q8_0": 8.5, "q6_k": 6.5625, "q5_k_m": 5.69, "q5_k_s": 5.54, "q5_k_xl": 5.75, "q5_0": 5.5, "q4_k_m": 4.85, "q4_k_s": 4.58,
    "q4_k_xl": 4.95, "q4_0": 4.5, "q4_1": 5.0, "iq4_xs": 4.25, "iq4_nl": 4.5, "q3_k_m": 3.91, "q3_k_s": 3.5, "q3_k_xl": 4.1,
    "iq3_xxs": 3.06, "q2_k": 2.96, "q2_k_xl": 3.1, "iq2_xxs": 2.06, "iq2_m": 2.7, "iq1_s": 1.56,
    "q4_q6_mixed": 5.2, "int_mixed_2_4_8": 4.0,
}  # fmt: skip

WEIGHT_FORMATS: dict[str, WeightFormat] = {
    f.id: f
    for f in (
        WeightFormat("bf16", 2.0, "bf16", 2.0, "bf16"),
        WeightFormat("fp16", 2.0, "bf16", 2.0, "bf16"),
        WeightFormat("fp32", 4.0, "bf16", 4.0, "bf16"),
        WeightFormat("fp8", 1.0, "fp8", 1.0, "fp8"),
        WeightFormat("fp8_block", 1.0 + 4 / 128**2, "fp8", 1.0, "fp8_block"),
        WeightFormat("int8", 1.0, "int8", 1.0, "int8"),
        WeightFormat("w8a16", 1.0 + 2 / 128, "bf16", 2.0, "w8a16"),
        WeightFormat("w4a16", 0.5 + 2 / 128, "bf16", 2.0, "w4a16"),
        WeightFormat("w4a16_g32", 0.5 + 2 / 32, "bf16", 2.0, "w4a16"),
        WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4", 0.5 + 1 / 16, "nvfp4"),
        WeightFormat("w4a16_nvfp4", 0.5 + 1 / 16, "bf16", 2.0, "w4a16"),
        WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16", 2.0, "mxfp4"),
        WeightFormat("mxfp8", 1.0 + 1 / 32, "fp8", 1.0 + 1 / 32, "fp8_block"),
        WeightFormat("bnb_nf4", 0.516, "bf16", 2.0, "w4a16"),
        WeightFormat("bnb_int8", 1.0, "int8", 1.0, "int8"),
        *(_gguf(name, bits) for name, bits in _GGUF_BITS.items()),
    )
}
WEIGHT_ALIASES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "fp8_e4m3": "fp8", "fp8_static": "fp8",
    "sq": "int8", "int8_wo": "w8a16", "int4_wo": "w4a16", "w4a16_mxfp4": "mxfp4", "int4": "w4a16", "awq": "w4a16",
    "gptq": "w4a16", "w8a8": "int8", "ud-q4_k_xl": "q4_k_xl", "f16": "fp16",
}  # fmt: skip
KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "q8_0": 8.5 / 8, "q4_0": 4.5 / 8, "nvfp4": 0.5625}


def weight_format(name: str) -> WeightFormat:
    """The format called ``name`` (any accepted spelling); raises ``InputError`` with near misses."""
    text = str(name).strip().lower()
    text = WEIGHT_ALIASES.get(text, text)
    if text not in WEIGHT_FORMATS:
        accepted = ", ".join(WEIGHT_FORMATS)
        raise InputError("weight format", name, accepted, nearest(text, [*WEIGHT_FORMATS, *WEIGHT_ALIASES]))
    return WEIGHT_FORMATS[text]
