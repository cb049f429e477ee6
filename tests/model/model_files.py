"""Where the test configs are, and how to write one in a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"
CONFIGS = sorted(p for p in (DATA / "model_configs").glob("*_config.json") if not p.name.endswith("_hf_quant_config.json"))

TINY_LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 32, "tie_word_embeddings": False, "max_position_embeddings": 64,
}  # fmt: skip


def config_path(model: str) -> Path:
    """The test config of a Hugging Face id."""
    return DATA / "model_configs" / f"{model.replace('/', '--', 1)}_config.json"


def written(folder: Path, config: Any, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
