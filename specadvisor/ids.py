"""Canonical spellings and the one alias table that maps every other spelling to them.

GPU ids and their aliases are data (``profiles/gpus``); everything else is listed here.
"""

from __future__ import annotations

from specadvisor.errors import InputError, nearest

ENGINES = ("vllm", "sglang", "tensorrt_llm", "llama_cpp", "tensorrt_edge_llm", "transformers", "ninfer", "lucebox")
# Engines whose settings are written: each has a module of its name in ``specadvisor.engines``.
EMITTERS = ("vllm", "sglang", "tensorrt_llm", "llama_cpp")
KV_FORMATS = ("bf16", "fp16", "fp8", "int8", "q8_0", "q4_0", "nvfp4")
DRAFTERS = (
    "draft_model", "eagle", "eagle2", "eagle3", "eagle3_1", "mtp", "medusa", "hydra", "mlp_speculator", "p_eagle", "pard",
    "dflash", "dflash2", "dspark", "domino", "ngram", "suffix", "rest", "lookahead", "token_recycling",
)  # fmt: skip
WORKLOADS = (
    "chat", "coding", "math", "reasoning", "summarization", "rag", "multilingual", "writing", "roleplay", "qa",
    "random", "mixed", "other",
)  # fmt: skip

ALIASES: dict[str, dict[str, str]] = {
    "engine": {
        "trtllm": "tensorrt_llm", "trt-llm": "tensorrt_llm", "tensorrt-llm": "tensorrt_llm", "trt_llm": "tensorrt_llm",
        "llama.cpp": "llama_cpp", "llamacpp": "llama_cpp", "llama-cpp": "llama_cpp", "hf": "transformers",
        "tensorrt-edge-llm": "tensorrt_edge_llm", "edge-llm": "tensorrt_edge_llm",
    },
    "KV format": {
        "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "f16": "fp16",
    },
    "drafter": {
        "eagle1": "eagle", "eagle-1": "eagle", "eagle-2": "eagle2", "eagle-3": "eagle3", "eagle3.1": "eagle3_1",
        "eagle-3.1": "eagle3_1", "nextn": "mtp", "peagle": "p_eagle", "p-eagle": "p_eagle", "external": "draft_model",
        "draft-model": "draft_model", "standalone": "draft_model", "n-gram": "ngram", "prompt_lookup": "ngram",
        "mlp-speculator": "mlp_speculator", "token-recycling": "token_recycling", "dflash-2": "dflash2",
    },
    "workload": {
        "code": "coding", "summarisation": "summarization", "conversation": "chat", "gsm8k": "math", "humaneval": "coding",
        "stem": "qa", "humanities": "qa",
    },
}  # fmt: skip
_KNOWN = {"engine": ENGINES, "KV format": KV_FORMATS, "drafter": DRAFTERS, "workload": WORKLOADS}


def resolve(what: str, name: str) -> str:
    """The canonical id for ``name``; ``what`` is ``engine``, ``KV format``, ``drafter`` or ``workload``.

    Raises ``InputError`` with the accepted ids and near misses.
    """
    known, text = _KNOWN[what], str(name).strip().lower()
    text = ALIASES[what].get(text, text)
    text = text if text in known else text.replace("-", "_")
    if text not in known:
        raise InputError(what, name, ", ".join(known), nearest(text, [*known, *ALIASES[what]]))
    return text
