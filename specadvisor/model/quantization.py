"""Which matrix of a checkpoint is stored in which format.

Read from ``quantization_config`` of config.json and from hf_quant_config.json (TensorRT Model Optimizer). Layouts:
block FP8 with a list of modules left alone; one algorithm with an exclude list; MIXED_PRECISION with a list of
quantised modules; compressed-tensors groups; MXFP4 experts; AWQ, GPTQ, bitsandbytes.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from specadvisor.errors import InputError
from specadvisor.formats import WEIGHT_FORMATS
from specadvisor.model.config import Config

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16"}
ALGORITHMS = {
    "FP8": "fp8", "FP8_PB_WO": "fp8_block", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "NVFP4": "nvfp4", "W4A16_NVFP4": "w4a16_nvfp4",
    "NVFP4_AWQ": "nvfp4", "MXFP4": "mxfp4", "MXFP8": "mxfp8", "W4A16_AWQ": "w4a16", "W4A8_AWQ": "w4a16", "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8", "W8A16": "w8a16", "W4A16": "w4a16",
}  # fmt: skip
ROOTS = re.compile(r"^(?:(?:model|language_model|backbone|transformer)\.)+")
ONE_EXPERT = re.compile(r"\.experts\.\d+\..*$")
OF_LAYER = re.compile(r"^layers\.(\d+)(?:\.(.*)|(\*))?$")
EVERY_LAYER = -1
NO_LIST = "the quantisation file lists no excluded modules: head, embedding, routers and MTP taken as 16 bit"


@lru_cache(maxsize=4096)
def matcher(pattern: str, anchored: bool) -> re.Pattern[str]:
    """``pattern`` (``re:`` regular expression, glob, or a module with everything below it) as one expression."""
    if pattern.startswith("re:"):
        return re.compile(pattern[3:] + "$")
    body = fnmatch.translate(pattern.rstrip(".")).removeprefix("(?s:").removesuffix(")\\Z").removesuffix(")\\z")
    return re.compile(("" if anchored else r"(?:.*\.)?") + f"(?:{body})" + r"(?:\..*)?$")


@dataclass
class Patterns:
    """Module patterns, sorted by the layer they name so that a lookup tries few of them."""

    by_layer: dict[int, list[tuple[str, str]]] = field(default_factory=dict)

    def add(self, pattern: str, format_: str) -> None:
        bare = pattern if pattern.startswith("re:") else ONE_EXPERT.sub(".experts", ROOTS.sub("", pattern))
        named = OF_LAYER.match(bare)
        layer, rest = (int(named[1]), named[2] or "*") if named else (EVERY_LAYER, bare)
        entry = (rest, format_)
        entries = self.by_layer.setdefault(layer, [])
        if not entries or entries[-1] != entry:
            entries.append(entry)

    def find(self, path: str) -> str | None:
        """Format of the first pattern that covers the module ``path`` (``layers.3.mlp.gate_proj``)."""
        if named := OF_LAYER.match(path):
            for pattern, format_ in self.by_layer.get(int(named[1]), ()):
                if matcher(pattern, True).match(named[2] or ""):
                    return format_
        for pattern, format_ in self.by_layer.get(EVERY_LAYER, ()):
            if matcher(pattern, False).match(path):
                return format_
        return None


@dataclass(frozen=True)
class Quantization:
    """``default``: matrices no pattern covers. ``kept``: what quantisers leave alone by convention (router, head, norms).

    ``experts``: routed experts, where the config states them apart. ``mtp``: the MTP block. ``kv``: cache format.
    """

    kept: str = "bf16"
    default: str = "bf16"
    experts: str = ""
    mtp: str = "bf16"
    kv: str = "bf16"
    embedding: str = "bf16"
    patterns: Patterns = field(default_factory=Patterns)
    warnings: tuple[str, ...] = ()

    def format_of(self, paths: Iterable[str], *, kept: bool = False, experts: bool = False, mtp: bool = False) -> str:
        """Format of a module known under any of ``paths``."""
        for path in paths:
            if format_ := self.patterns.find(path):
                return format_
        if kept or (mtp and self.mtp == self.kept):
            return self.kept
        return (self.experts if experts else "") or (self.mtp if mtp else self.default)


def uniform(weights: str, base: Quantization) -> Quantization:
    """Every matrix in ``weights``.

    GGUF files quantise the whole model, embedding and head included. All other formats leave embedding, head, norms
    and routers in 16 bit; the MTP block follows 8-bit formats and stays in 16 bit in 4-bit ones, as published
    checkpoints have it.
    """
    size = WEIGHT_FORMATS[weights].bytes_per_weight
    if WEIGHT_FORMATS[weights].kernel == "gguf":
        return Quantization(weights, weights, weights, weights, base.kv, weights)
    kept = weights if size >= 2.0 else base.kept
    return Quantization(kept, weights, weights, weights if size >= 1.0 else kept, base.kv, kept)


def quantization(config: Config, hf_quant: Mapping[str, Any] | None = None) -> Quantization:
    """The formats of the checkpoint that ``config`` describes; raises ``InputError`` for an unknown method."""
    dtype = str(config.get("dtype") or config.top.get("dtype") or config.top.get("torch_dtype") or "bfloat16")
    base = DTYPES.get(dtype.removeprefix("torch."), "bf16")
    cache = "fp16" if base == "fp16" else "bf16"
    plain = Quantization(base, base, "", base, cache, base)
    stated = Config(config.top, {}, config.source).table("quantization_config") or config.table("quantization_config")
    beside = Config(hf_quant or {}, {}, f"{config.source} (hf_quant_config)").table("quantization")
    entry = {**beside, **{key: value for key, value in stated.items() if value is not None}}
    if not entry:
        return plain
    plain = replace(plain, kv=cache_format(entry) or cache)
    method = str(entry.get("quant_method") or ("modelopt" if entry.get("quant_algo") else "")).lower()
    if entry.get("quant_algo") == "MIXED_PRECISION" or method in ("modelopt", "modelopt_fp4"):
        return modelopt(config, plain, entry, method)
    if method in ("compressed-tensors", "compressed_tensors"):
        return compressed_tensors(config, plain, entry)
    default = default_format(config, method, entry)
    read = replace(plain, experts=default) if method == "mxfp4" else replace(plain, default=default, mtp=default)
    exclude(read, excluded(entry))
    return native_fp4_experts(config, read)


def modelopt(config: Config, plain: Quantization, entry: Mapping[str, Any], method: str) -> Quantization:
    """Model Optimizer: one algorithm with an exclude list, or MIXED_PRECISION with a list of what is quantised."""
    algorithm = str(entry.get("quant_algo") or "")
    mixed = algorithm == "MIXED_PRECISION"
    read = replace(plain, default="fp8_block", mtp="fp8_block") if mixed and method == "fp8" else plain
    for module, spec in Config(entry, {}, config.source).table("quantized_layers").items():
        algorithm_ = spec.get("quant_algo") if isinstance(spec, Mapping) else spec
        read.patterns.add(module, known_algorithm(config, algorithm_))
    if mixed:
        return native_fp4_experts(config, read)
    exclude(read, excluded(entry))
    assumed = () if excluded(entry) else (NO_LIST,)
    return replace(read, default=known_algorithm(config, algorithm), warnings=assumed)


def compressed_tensors(config: Config, plain: Quantization, entry: Mapping[str, Any]) -> Quantization:
    """Groups of targets (``Linear`` for all, else module patterns), with an ignore list."""
    exclude(plain, excluded(entry))
    read = plain
    for group in Config(entry, {}, config.source).table("config_groups").values():
        described = Config(group if isinstance(group, Mapping) else {}, {}, f"{config.source}: config_groups")
        format_ = tensor_format(Config(described.table("weights"), {}, described.source), group.get("input_activations"))
        for target in group.get("targets") or ["Linear"]:
            if target == "Linear":
                read = replace(read, default=format_, mtp=format_)
            else:
                read.patterns.add(target, format_)
    return read


def tensor_format(weights: Config, activations: Any) -> str:
    """Format of a compressed-tensors weight description."""
    bits, group = weights.integer("num_bits", 16), weights.integer("group_size", -1, low=-1)
    if weights.get("type") == "float":
        if bits == 4:
            return "mxfp4" if group == 32 else "nvfp4" if activations else "w4a16_nvfp4"
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    if bits == 8:
        return "int8" if activations else "w8a16"
    return "w4a16_g32" if 0 < group <= 32 else "w4a16"


def default_format(config: Config, method: str, entry: Mapping[str, Any]) -> str:
    """Format of the matrices that a one-format quantiser converts."""
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8_block" if entry.get("weight_block_size") else "fp8"
    if method in ("gptq", "awq", "auto-round", "autoround", "gptq_marlin", "awq_marlin"):
        stated = Config(entry, {}, config.source)
        if stated.integer("bits", stated.integer("w_bit", 4)) == 8:
            return "w8a16"
        return "w4a16_g32" if 0 < stated.integer("group_size", 128, low=-1) <= 32 else "w4a16"
    if method == "bitsandbytes":
        return "bnb_int8" if entry.get("load_in_8bit") else "bnb_nf4"
    if method in ("mxfp4", "mxfp8"):
        return method
    accepted = "fp8, modelopt, compressed-tensors, mxfp4, mxfp8, awq, gptq, bitsandbytes"
    raise InputError(f"{config.source}: quant_method", method, accepted, "State the weight format yourself (weights=...).")


def known_algorithm(config: Config, algorithm: Any) -> str:
    """The format of a Model Optimizer algorithm."""
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        hint = "State the weight format yourself (weights=...)."
        raise InputError(f"{config.source}: quant_algo", algorithm, ", ".join(ALGORITHMS), hint)
    return ALGORITHMS[algorithm]


def native_fp4_experts(config: Config, read: Quantization) -> Quantization:
    """DeepSeek-V4 states 4-bit experts outside its quantisation entry."""
    return replace(read, experts="mxfp4") if config.get("expert_dtype") == "fp4" else read


def excluded(entry: Mapping[str, Any]) -> list[str]:
    """Modules left alone, under any of the three keys."""
    keys = ("ignore", "exclude_modules", "modules_to_not_convert")
    return [str(module) for key in keys if isinstance(entry.get(key), list) for module in entry[key]]


def exclude(read: Quantization, modules: Iterable[str]) -> None:
    """Put ``modules`` on the 16-bit list of ``read``."""
    for module in modules:
        read.patterns.add(module, read.kept)


def cache_format(entry: Mapping[str, Any]) -> str:
    """KV cache format that the checkpoint asks for, if any: ``kv_cache_scheme`` (table or text) or ``kv_cache_quant_algo``."""
    scheme = entry.get("kv_cache_scheme") or entry.get("kv_cache_quant_algo")
    if isinstance(scheme, Mapping):
        kind = f"{scheme.get('type')}{scheme.get('num_bits')}"
        return {"float8": "fp8", "int8": "int8", "float4": "nvfp4"}.get(kind, "")
    return {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}.get(str(scheme), "")
