"""Read one GPU file (``profiles/gpus/<id>.toml`` or a user's own; grammar in ``profiles/gpus/README.md``) into a ``Gpu``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specadvisor.errors import InputError
from specadvisor.hardware.gpu import Gpu

GIB = 2.0**30
MIB = 2.0**20
GRAMMAR = "profiles/gpus/README.md lists the keys; any shipped file there is an example"
PEAKS = ("bf16", "fp16", "int8", "fp8", "fp4")


def read_gpu_file(path: Path) -> Gpu:
    """The GPU that the TOML file at ``path`` describes, without kernel parameters.

    Raises ``InputError`` for a file that is not TOML, misses a key or holds a number that cannot be.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError("gpu file", str(path), "a readable TOML file", str(error)) from error
    return gpu_from_table(data, where=str(path))


def other_names(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(aliases, NVML names) of the file at ``path``."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(data.get("aliases", ())), tuple(data.get("nvml_names", ()))


def gpu_from_table(data: Mapping[str, Any], where: str) -> Gpu:
    """A ``Gpu`` from the parsed table of a GPU file; ``where`` names the file in errors."""
    tables = ("memory", "links", "provenance", "peak_tflops")
    for name in tables:
        if not isinstance(data.get(name, {}), Mapping):
            raise InputError("gpu file", where, f"{name} as a table", GRAMMAR)
    memory, links, provenance, rates = (data.get(name, {}) for name in tables)
    names = data.get("nvml_names", ())
    peaks = {name: _positive(value, f"peak_tflops.{name}", where) * 1e12 for name, value in rates.items()}
    unknown = sorted(set(peaks) - set(PEAKS))
    if unknown or not (peaks.get("bf16") or peaks.get("fp16")):
        raise InputError("gpu file", where, f"peak_tflops with bf16 or fp16, of {', '.join(PEAKS)}", GRAMMAR)
    nvlink = float(links.get("nvlink_gb_per_s", 0.0)) * 1e9
    pcie = float(links.get("pcie_gb_per_s", 0.0)) * 1e9
    network = float(links.get("network_gb_per_s", 0.0)) * 1e9
    return Gpu(
        id=str(_required(data, "id", where)),
        name=names[0] if names else str(data["id"]),
        family=str(data.get("family", "")),
        sm=int(_positive(_required(data, "sm", where), "sm", where)),
        memory_bytes_per_s=_positive(_required(memory, "gb_per_s", where), "memory.gb_per_s", where) * 1e9,
        memory_bytes=_memory_bytes(memory, where),
        sm_count=int(_positive(_required(data, "sm_count", where), "sm_count", where)),
        l2_bytes=float(data.get("l2_mib", 0.0)) * MIB,
        peaks=peaks,
        link_bytes_per_s=nvlink or pcie or network,
        nvlink=nvlink > 0,
        pcie_bytes_per_s=pcie,
        boost_hz=_positive(_required(data, "boost_mhz", where), "boost_mhz", where) * 1e6,
        tdp_w=_positive(_required(data, "tdp_w", where), "tdp_w", where),
        gpus_per_node=int(links.get("gpus_per_node", 1)),
        aliases=tuple(data.get("aliases", ())),
        nvml_names=tuple(names),
        unified_memory=bool(memory.get("unified", False)),
        confidence=str(provenance.get("confidence", "low")),
        source=str(provenance.get("source", where)),
        note=str(provenance.get("note", "")),
    )


def _memory_bytes(memory: Mapping[str, Any], where: str) -> float:
    for key, unit in (("usable_gib", GIB), ("nvml_mib", MIB), ("nominal_gib", GIB)):
        if key in memory:
            return _positive(memory[key], f"memory.{key}", where) * unit
    raise InputError("gpu file", where, "memory.nominal_gib", GRAMMAR)


def _required(table: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in table:
        raise InputError("gpu file", where, f"the key {key}", GRAMMAR)
    return table[key]


def _positive(value: Any, key: str, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise InputError(f"{key} in {where}", value, "a number above 0", GRAMMAR)
    return float(value)
