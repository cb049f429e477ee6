"""A config.json as typed questions: every spelling of a key, every bad value one clear error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specadvisor.errors import InputError

TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal configs nest the language model."""

SPELLINGS: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_key_value_heads": ("num_key_value_heads", "num_attention_groups"),
    "head_dim": ("head_dim", "attention_head_dim"),
    "max_context": ("max_position_embeddings", "max_seq_len", "model_max_length"),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_top_k", "experts_per_token"),
    "expert_width": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "dense_width": ("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
    "shared_width": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim", "share_expert_dims",
        "shared_intermediate_size",
    ),
    "expert_hidden": ("moe_latent_size", "routed_expert_hidden_size"),
    "mtp_modules": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers"),
    "mtp_pattern": ("mtp_hybrid_override_pattern", "mtp_layers_block_type"),
    "layers_block_type": ("layers_block_type", "hybrid_override_pattern"),
    "dtype": ("dtype", "torch_dtype"),
}  # fmt: skip
"""One name for what configs call by several; the first spelling that is present and not null counts."""

LARGEST = {"hidden_size": 10**6, "num_hidden_layers": 10**4, "num_attention_heads": 10**5, "vocab_size": 10**8}
LARGEST_OTHER = 10**8


@dataclass(frozen=True)
class Config:
    """The language model's part (``text``) of a whole config (``top``); ``source`` names the file in errors."""

    text: Mapping[str, Any]
    top: Mapping[str, Any]
    source: str
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, top: Mapping[str, Any], source: str) -> Config:
        text = top
        while nested := next((text[key] for key in TEXT_KEYS if isinstance(text.get(key), Mapping)), None):
            text = nested
        return cls(text, top, source)

    @property
    def model_type(self) -> str:
        return str(self.top.get("model_type") or self.text.get("model_type") or "")

    def found(self, key: str) -> tuple[str, Any]:
        """(spelling, value) of ``key``; value None where no spelling has one. Family defaults come last."""
        for spelling in SPELLINGS.get(key, (key,)):
            if self.text.get(spelling) is not None:
                return spelling, self.text[spelling]
        return key, self.defaults.get(key)

    def get(self, key: str, default: Any = None) -> Any:
        value = self.found(key)[1]
        return default if value is None else value

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self.get(key, default))

    def integer(self, key: str, default: int | None = None, low: int = 1) -> int:
        """A whole number of at least ``low``; raises ``InputError`` for a missing, non-numeric or absurd value."""
        spelling, value = self.found(key)
        if value is None and default is not None:
            return default
        return self.checked(spelling, value, low, LARGEST.get(key, LARGEST_OTHER))

    def count(self, key: str, default: int = 0) -> int:
        """As ``integer``, with 0 allowed (a part the model does not have)."""
        return self.integer(key, default, low=0)

    def checked(self, spelling: str, value: Any, low: int, high: int) -> int:
        accepted = f"a whole number from {low} to {high:,}"
        if value is None:
            raise InputError(f"{self.source}: {spelling}", "nothing", accepted, "The key is missing from this config.")
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole or not low <= value <= high:
            raise InputError(f"{self.source}: {spelling}", value, accepted)
        return int(value)

    def numbers(self, spelling: str, value: Any) -> set[int]:
        """A list of layer numbers; nothing counts as an empty one."""
        if value is not None and not isinstance(value, list):
            raise InputError(f"{self.source}: {spelling}", value, "a list of layer numbers")
        return {self.checked(spelling, number, 0, 10**4) for number in value or ()}

    def table(self, key: str) -> Mapping[str, Any]:
        """A nested table, empty where there is none."""
        spelling, value = self.found(key)
        if value is not None and not isinstance(value, Mapping):
            raise InputError(f"{self.source}: {spelling}", value, "a table")
        return value or {}

    def per_layer(self, key: str, layers: int) -> list[Any] | None:
        """A list with one entry a layer (longer lists, as where MTP layers are counted, are cut), or None."""
        spelling, value = self.found(key)
        if value is None:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) < layers:
            size = len(value) if isinstance(value, Sequence) else value
            raise InputError(f"{self.source}: {spelling}", size, f"a list with {layers} entries, one a layer")
        return list(value[:layers])
