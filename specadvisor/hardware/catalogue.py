"""Find a GPU by id, alias, marketing name, file or on this machine."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from specadvisor.data_files import profiles_dir, user_dir
from specadvisor.errors import InputError, nearest
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.gpu_file import gpu_from_table, other_names, read_gpu_file
from specadvisor.hardware.kernel_profile import load_kernel_profile
from specadvisor.hardware.power import clock_scale

HINT = "List them with: specadvisor gpus. A GPU that is not listed is one text file: profiles/gpus/README.md."
CPU = "cpu"
BRAND = ("nvidia", "geforce", "tesla", "quadro", "rtx")


def list_gpus() -> list[str]:
    """Ids of all shipped GPUs, sorted."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def load_gpu(
    name: str | Path, power_limit_w: float | None = None, clock_hz: float | None = None, count: int | None = None
) -> Gpu:
    """The GPU called ``name``, with its kernel parameters attached.

    ``name``: an id or alias in any case, with dashes or spaces (``rtx-4090``, ``H100``); the marketing name that NVML prints;
    the path of a GPU file (TOML) or of a calibration (JSON); ``auto`` for the GPU of this machine; or what the user has
    calibrated outside the catalogue (``cpu``). ``power_limit_w`` and ``clock_hz`` (a locked SM clock) lower the compute, see
    ``power``; with ``auto`` the card's own limit counts. ``count`` is the number of GPUs of the node. Kernel parameters: the
    user's own calibration of this GPU wins over the shipped ones.
    Raises ``InputError`` with near misses, or ``MissingDependency`` where ``auto`` finds no driver.
    """
    text = str(name).strip()
    if text.lower() == "auto":
        from specadvisor.hardware.local_gpu import find_local_gpu  # NVML only when it is asked for

        local = find_local_gpu()
        gpu = calibrated(unlisted_id(local.name)) or match_local(local.name, local.memory_bytes)
        power_limit_w = local.lowered_power_limit_w if power_limit_w is None else power_limit_w
        count = local.count if count is None else count
    elif text.lower().endswith((".toml", ".json")):
        gpu = _from_path(Path(text).expanduser())
    else:
        gpu = calibrated(text) or datasheet(text)
    if count is not None and count < 1:
        raise InputError("number of GPUs", count, "1 or more")
    gpu = replace(
        gpu,
        clock_scale=clock_scale(gpu, power_limit_w, clock_hz),
        power_limit_w=power_limit_w,
        gpus_per_node=count or gpu.gpus_per_node,
    )
    return gpu if gpu.kernels else replace(gpu, kernels=load_kernel_profile(gpu))


def gpu_facts(name: str | Path) -> Gpu:
    """As ``load_gpu``, but without kernel parameters: whoever measures them needs none, nor a sound file of them (except
    for ``auto``, which reads them).
    """
    text = str(name).strip()
    if text.lower() == "auto":
        return replace(load_gpu(text), kernels=None)
    if text.lower().endswith((".toml", ".json")):
        return _facts(Path(text).expanduser())
    path = _calibration(text)
    return _facts(path) if path else datasheet(text)


def calibrated(name: str) -> Gpu | None:
    """What the user calibrated under this id, if it is not in the catalogue: such a profile brings its own datasheet.

    Raises ``InputError`` for a processor that was not calibrated: no catalogue can describe it.
    """
    path = _calibration(name)
    return _from_path(path) if path else None


def _calibration(name: str) -> Path | None:
    gpu_id = re.sub(r"[^a-z0-9]+", "_", name.lower())
    path = user_dir() / "kernels" / f"{gpu_id}.json"
    if (_folder() / f"{gpu_id}.toml").is_file():
        return None
    if path.is_file():
        return path
    if gpu_id == CPU:
        hint = "Measure it first: specadvisor calibrate --device cpu"
        raise InputError("gpu", name, f"a processor with a calibration at {path}", hint)
    return None


def unlisted_id(marketing_name: str) -> str:
    """The id under which a GPU outside the catalogue is saved."""
    return re.sub(r"[^a-z0-9]+", "_", marketing_name.lower().replace("nvidia", "")).strip("_") or "gpu"


@cache
def datasheet(name: str) -> Gpu:
    """The shipped facts of one GPU (id, alias or marketing name) without kernel parameters; an exact id reads one file."""
    path = _folder() / f"{name}.toml"
    if "/" not in name and "\\" not in name and path.is_file():
        return read_gpu_file(path)
    found = {gpu_id for spelling, gpu_id in _spellings() if spelling == _squeeze(name) and not spelling.startswith("nvidia")}
    found = found or {gpu_id for spelling, gpu_id in _spellings() if _bare(spelling) == _bare(_squeeze(name))}
    if len(found) == 1:
        return read_gpu_file(_folder() / f"{found.pop()}.toml")
    if found:
        raise InputError("gpu", name, " or ".join(sorted(found)), "Several GPUs answer to this name.")
    known = [*list_gpus(), *(alias for path in _folder().glob("*.toml") for alias in other_names(path)[0])]
    accepted = "an id of `specadvisor gpus`, a .toml or .json file, auto"
    raise InputError("gpu", name, accepted, f"{nearest(name, known)} {HINT}".strip())


def match_local(nvml_name: str, memory_bytes: float | None) -> Gpu:
    """The shipped GPU that NVML calls ``nvml_name``; the memory (within 6 %: ECC, driver) tells equal names apart."""
    seen = nvml_name if memory_bytes is None else f"{nvml_name} ({memory_bytes / 2**30:.1f} GiB)"
    matches = [gpu for gpu in map(datasheet, list_gpus()) if nvml_name.strip().lower() in (n.lower() for n in gpu.nvml_names)]
    fitting = [g for g in matches if memory_bytes is None or abs(memory_bytes - g.memory_bytes) <= 0.06 * g.memory_bytes]
    if len(fitting) != 1:
        close = ", ".join(gpu.id for gpu in matches) or "none"
        hint = f"Same name in the catalogue: {close}. Pass an id (--gpu {close.split(',')[0]}) or a file for this card. {HINT}"
        raise InputError("local GPU", seen, "a GPU of the catalogue", hint)
    return fitting[0] if memory_bytes is None else replace(fitting[0], memory_bytes=memory_bytes)


def _from_path(path: Path) -> Gpu:
    """``_facts``, with the kernel parameters of a calibration."""
    gpu = _facts(path)
    return gpu if path.suffix.lower() == ".toml" else replace(gpu, kernels=load_kernel_profile(gpu, path))


def _facts(path: Path) -> Gpu:
    """A GPU file, or a calibration: its ``gpu`` names a shipped GPU, or ``datasheet`` holds the table of a GPU file."""
    if not path.is_file():
        raise InputError("gpu file", str(path), "an existing .toml or .json file", "Check the path.")
    if path.suffix.lower() == ".toml":
        return read_gpu_file(path)
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError("gpu profile", str(path), "a JSON profile written by `specadvisor calibrate`", str(error)) from error
    if isinstance(data, dict) and isinstance(data.get("datasheet"), dict):
        return gpu_from_table(data["datasheet"], where=str(path))
    if isinstance(data, dict) and isinstance(data.get("gpu"), str):
        return datasheet(data["gpu"])
    raise InputError("gpu profile", str(path), "a JSON profile with the key `gpu`", "Write one with: specadvisor calibrate")


def _folder() -> Path:
    return profiles_dir() / "gpus"


@cache
def _spellings() -> tuple[tuple[str, str], ...]:
    """(squeezed spelling, id) of every id, alias and marketing name."""
    found = []
    for path in sorted(_folder().glob("*.toml")):
        aliases, names = other_names(path)
        found += [(_squeeze(spelling), path.stem) for spelling in (path.stem, *aliases, *names)]
    return tuple(found)


def _squeeze(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _bare(squeezed: str) -> str:
    """Without the brand words in front: ``nvidiageforcertx4090`` and ``rtx4090`` are both ``4090``."""
    for word in BRAND:
        squeezed = squeezed.removeprefix(word)
    return squeezed
