"""Reads the ``config.json`` of a drafter: which family it is, and the sizes it states."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specadvisor.drafters.parts import Mla
from specadvisor.errors import InputError

# Architecture names of SpecForge, TorchSpec, AngelSlim, z-lab/dflash, DeepSpec, speculators and transformers.
_KINDS = {
    "LlamaForCausalLMEagle3": "eagle3", "Eagle3LlamaForCausalLM": "eagle3", "Eagle3DeepseekV2ForCausalLM": "eagle3",
    "Eagle3Speculator": "eagle3", "EagleLlamaForCausalLM": "eagle", "PEagleDraftModel": "p_eagle", "DFlashDraftModel": "dflash",
    "QwenDFlashDraftModel": "dflash", "QwenDFlareDraftModel": "dflash", "MuseGlimmerAssistant": "dflash",
    "DFlash2DraftModel": "dflash2", "DSparkDraftModel": "dspark", "DominoDraftModel": "domino",
    "Gemma4AssistantForCausalLM": "mtp", "MedusaModel": "medusa", "HydraModel": "hydra",
    "MLPSpeculatorPreTrainedModel": "mlp_speculator",
    "ArcticMLPSpeculatorPreTrainedModel": "mlp_speculator", "ArcticLSTMSpeculatorPreTrainedModel": "mlp_speculator",
}  # fmt: skip
# Families whose files may look alike.
_ONE_FILE = ({"eagle", "eagle2"}, {"eagle3", "eagle3_1", "p_eagle"}, {"dflash", "dflash2"}, {"draft_model", "pard"})
_SPECULATORS = {"eagle3": "eagle3", "peagle": "p_eagle", "dflash": "dflash", "dflash2": "dflash2", "dspark": "dspark"}


def read_config(path: str | Path) -> dict[str, Any]:
    """The JSON object in ``path`` (a file, or a directory with ``config.json``)."""
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    if not file.is_file():
        raise InputError("drafter", str(path), "a drafter kind, or a path to a config.json", "The file does not exist.")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError("drafter", str(path), "a JSON file", f"It does not parse: {error}.") from None
    if not isinstance(config, dict):
        raise InputError("drafter", str(path), "a JSON object with the drafter's sizes")
    return config


def classify(config: Mapping[str, Any]) -> str:
    """Drafter kind of a config; ``draft_model`` where it is an ordinary language model.

    EAGLE-1 files are one-layer Llama configs without a draft vocabulary; a fragment with only a draft vocabulary
    (ModelOpt) overrides an EAGLE-3 default.
    """
    kind = named_kind(config)
    if not kind and "draft_vocab_size" in config:
        kind = "eagle3"
    if not kind and config.get("num_hidden_layers") == 1:
        kind = "eagle"
    if kind == "eagle3" and (config.get("fc_norm") or config.get("norm_output")):
        kind = "eagle3_1"
    return kind or "draft_model"


def named_kind(config: Mapping[str, Any]) -> str:
    """The family that a config names by its algorithm or its architecture; empty where it names none."""
    speculators = config.get("speculators_config") or {}
    if isinstance(speculators, Mapping) and speculators.get("algorithm") in _SPECULATORS:
        return _SPECULATORS[speculators["algorithm"]]
    return _KINDS.get((config.get("architectures") or [""])[0], "")


def check_kind(kind: str, config: Mapping[str, Any], source: str) -> None:
    """Raise ``InputError`` where ``kind`` is said of a config that names another family."""
    named = named_kind(config)
    if named and named != kind and not any({named, kind} <= group for group in _ONE_FILE):
        accepted = f"{named}:{source}, or the path alone"
        raise InputError("drafter", f"{kind}:{source}", accepted, f"The file names the kind {named}.")


def stated_sizes(config: Mapping[str, Any], source: str = "drafter config") -> dict[str, Any]:
    """Fields of ``Shape`` that the config states; the rest stays as usual for the family."""
    text = config.get("text_config") or config
    nested = config.get("dflash_config") or {}
    taps = _first(nested, config, "target_layer_ids")
    taps = taps or _first(config.get("eagle_config") or {}, config, "eagle_aux_hidden_state_layer_ids")
    counts = ("n_predict", "n_speculator_heads", "medusa_num_heads", "hydra_num_heads")
    sizes = {
        "hidden": text.get("hidden_size"),
        "layers": text.get("num_hidden_layers"),
        "intermediate": text.get("intermediate_size"),
        "heads": text.get("num_attention_heads"),
        "kv_heads": text.get("num_key_value_heads", text.get("num_attention_heads")),
        "head_dim": text.get("head_dim") or _ratio(text.get("hidden_size"), text.get("num_attention_heads")),
        "vocab": text.get("vocab_size"),
        "draft_vocab": config.get("draft_vocab_size"),
        "target_hidden": config.get("target_hidden_size") or config.get("backbone_hidden_size"),
        "block": config.get("block_size") or config.get("dspark_block_size"),
        "rank": _first(nested, config, "markov_rank") or _first(nested, config, "emb_dim"),
        "gru": _first(nested, config, "gru_hidden_dim"),
        "width": config.get("inner_dim"),
        "modules": next((config[name] for name in counts if config.get(name)), None),
        "trained_context": text.get("max_position_embeddings"),
    }
    scaling = text.get("rope_scaling")
    stretched = scaling if isinstance(scaling, Mapping) and "yarn" in (scaling.get("type"), scaling.get("rope_type")) else {}
    original, factor = stretched.get("original_max_position_embeddings"), stretched.get("factor")
    if isinstance(original, int) and isinstance(factor, int | float) and factor >= 1:
        sizes["trained_context"] = int(original * factor)
    for name, value in sizes.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**32:
            raise InputError(f"{source}: {name}", value, "a positive whole number")
    stated: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
    if taps:
        stated["taps"] = len(taps)
    if windows := _windows(text, stated.get("layers", 0)):
        stated["windows"] = windows
    if "kv_lora_rank" in text:
        stated["mla"] = Mla(
            text["q_lora_rank"], text["kv_lora_rank"], text["qk_nope_head_dim"], text["qk_rope_head_dim"], text["v_head_dim"]
        )
    if "tie_word_embeddings" in config:
        stated["tied"] = bool(config["tie_word_embeddings"])
    if stretched:
        stated["rope_scaled"] = True
    if (config.get("architectures") or [""])[0] == "QwenDFlareDraftModel":
        stated["mixing"] = True
    return stated


def _windows(text: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """Window per layer: ``layer_types`` where given, else ``sliding_window`` for all of them when it is switched on.

    An EAGLE-3 file may carry its target's ``sliding_window`` with ``use_sliding_window`` false: no window then.
    """
    size = text.get("sliding_window")
    if not size:
        return ()
    if types := text.get("layer_types"):
        return tuple(size if kind == "sliding_attention" else 0 for kind in types)
    return (size,) * layers if text.get("use_sliding_window") else ()


def _first(nested: Mapping[str, Any], config: Mapping[str, Any], key: str) -> Any:
    return nested.get(key) if nested.get(key) is not None else config.get(key)


def _ratio(hidden: Any, heads: Any) -> int | None:
    return hidden // heads if isinstance(hidden, int) and isinstance(heads, int) and heads else None
