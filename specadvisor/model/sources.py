"""Where a model's config comes from: a file, a folder, a GGUF file, a shipped name, the Hugging Face hub."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError, MissingDependency, nearest

ACCEPTED = "a config.json, a model folder, a .gguf file, hf:org/name, or a shipped name (specadvisor models lists them)"
# Endings of checkpoints whose config is that of the shipped model, up to the training.
TUNED = ("-instruct", "-chat", "-it", "-base", "-thinking", "-instruct-2507", "-thinking-2507", "-0324", "-0528", "-hf")
# Shapes compared key by key with the published configs of both.
SAME_CONFIG = {"qwen3.6-27b": "qwen3.5-27b", "qwen3.6-35b-a3b": "qwen3.5-35b-a3b"}
SUFFIX, QUANT_SUFFIX = "_config.json", "_hf_quant_config.json"


@dataclass(frozen=True)
class Source:
    """``config`` and ``hf_quant`` as parsed; ``gguf`` is set instead for a GGUF file."""

    name: str
    origin: str
    config: Mapping[str, Any]
    hf_quant: Mapping[str, Any] | None = None
    gguf: Path | None = None


def find(source: str | Path) -> Source:
    """The files behind ``source``; raises ``InputError`` where there are none."""
    text = str(source).strip()
    if not text:
        raise InputError("model", source, ACCEPTED)
    if text.startswith("hf:"):
        return from_hub(text[3:])
    path = Path(text).expanduser()
    if path.is_dir():
        return from_folder(path)
    if path.suffix.lower() == ".gguf" and path.is_file():
        return Source(path.stem, str(path), {}, gguf=path)
    if path.is_file():
        return from_file(path)
    if name := shipped_name(text):
        return from_file(shipped_configs()[name])
    hint = f"Not shipped: hf:{text} reads its config from the Hugging Face hub." if text.count("/") == 1 else ""
    if path.suffix.lower() in (".json", ".gguf") or text.count("/") > 1:
        hint = "There is no such file."
    raise InputError("model", text, ACCEPTED, " ".join((nearest(base_name(text), shipped_configs()), hint)).strip())


def base_name(text: str) -> str:
    """``llama-3.1-8b`` of ``meta-llama/Llama-3.1-8B-Instruct``: without organisation and tuning, in small letters."""
    name = text.lower().rpartition("/")[2]
    for ending in sorted(TUNED, key=len, reverse=True):
        name = name.removesuffix(ending)
    return name.removeprefix("meta-")


def shipped_name(text: str) -> str:
    """The shipped model that ``text`` names, with or without an organisation before it; empty where there is none."""
    shipped = shipped_configs()
    name = text.lower().rpartition("/")[2] if text.count("/") <= 1 else text
    candidates = (name, base_name(name), SAME_CONFIG.get(name, ""), SAME_CONFIG.get(base_name(name), ""))
    return next((found for found in candidates if found in shipped), "")


def shipped_configs() -> dict[str, Path]:
    """Shipped name -> config file."""
    folder = profiles_dir() / "models"
    files = (path for path in sorted(folder.glob(f"*{SUFFIX}")) if not path.name.endswith(QUANT_SUFFIX))
    return {path.name.removesuffix(SUFFIX): path for path in files}


def hub_id(name: str) -> str:
    """The Hugging Face id of a shipped model, as the table of ``profiles/models/SOURCES.md`` has it; empty where unknown."""
    text = (profiles_dir() / "models" / "SOURCES.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `([^`]+)` \| (\S+/\S+) \|", text, re.MULTILINE)).get(name, "")


def from_folder(folder: Path) -> Source:
    """A model folder: its config.json, else its first .gguf file."""
    if (folder / "config.json").is_file():
        return from_file(folder / "config.json")
    files = sorted(folder.glob("*.gguf"))
    if files:
        return Source(files[0].stem, str(files[0]), {}, gguf=files[0])
    raise InputError("model", str(folder), "a folder with config.json or a .gguf file", "Neither is in this folder.")


def from_file(path: Path) -> Source:
    """A config file, with the quantisation file beside it under either naming."""
    prefix = path.name.removesuffix(SUFFIX) if path.name.endswith(SUFFIX) else ""
    name = prefix.replace("--", "/", 1) or (path.parent.name if path.name == "config.json" else path.stem)
    beside = path.with_name(f"{prefix}{QUANT_SUFFIX}" if prefix else "hf_quant_config.json")
    return Source(name or path.stem, str(path), parse(path), parse(beside) if beside.is_file() else None)


def parse(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; ``Infinity`` and ``NaN``, which configs contain, are accepted."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("model", str(path), "a readable text file", str(error)) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise InputError("model", str(path), "a complete JSON object", f"The file stops making sense at {where}.") from None
    if not isinstance(content, dict):
        raise InputError("model", str(path), "a JSON object", f"The file holds a {type(content).__name__}.")
    return content


def from_hub(repository: str) -> Source:
    """Download config.json and hf_quant_config.json of ``org/name``: the only use of the network in specadvisor."""
    if repository.count("/") != 1:
        raise InputError("model", f"hf:{repository}", "hf:org/name")
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingDependency("huggingface_hub", "hf:org/name models", "pip install 'specadvisor[hf]'") from None
    try:
        config = parse(Path(hf_hub_download(repository, "config.json")))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError("model", f"hf:{repository}", "a reachable repository with a config.json", first) from None
    try:
        quant = parse(Path(hf_hub_download(repository, "hf_quant_config.json")))
    except (EntryNotFoundError, HfHubHTTPError, OSError):
        quant = None
    return Source(repository, f"hf:{repository}", config, quant)
