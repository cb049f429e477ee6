"""Reading, checking and writing kernel profiles: JSON files, the layout is described in ``docs/kernel-profiles.md``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specadvisor.data_files import profiles_dir, user_dir, write_atomically
from specadvisor.errors import InputError, nearest
from specadvisor.hardware.kernel_entry import ANY, FAMILY, OPERATORS, STATES, USER, Bound, KernelEntry, KernelProfile

if TYPE_CHECKING:
    from specadvisor.hardware.gpu import Gpu

__all__ = [
    "ANY", "FAMILY", "OPERATORS", "SCHEMA_VERSION", "STATES", "USER", "Bound", "KernelEntry", "KernelProfile",
    "family_defaults", "load_kernel_profile", "profile_to_json", "read_kernel_profile", "write_kernel_profile",
]  # fmt: skip

SCHEMA_VERSION = 1
STAND_IN = "standin"  # how a test's profile names its GPU and source, letters only
_TOP = {"schema_version", "gpu", "source", "entries", "datasheet", "conditions"}
_ENTRY = {"operator", "format", "engine", "kernel", "state", "parameters", "error", "provenance"}


def load_kernel_profile(gpu: Gpu, path: str | Path | None = None) -> KernelProfile:
    """The user's own profile of this GPU if there is one, else the shipped one, with the family defaults behind it.

    The user's file (``path``, else ``<user_dir>/kernels/<gpu>.json``) wins entry by entry: what it lacks comes from the
    shipped profile of this GPU. ``source`` of the result is ``user`` or ``shipped``.
    Raises ``InputError`` for a file that belongs to another GPU or holds a test's invented times.
    """
    own, shipped = user_dir() / "kernels" / f"{gpu.id}.json", profiles_dir() / "kernels" / f"{gpu.id}.json"
    entries: list[KernelEntry] = []
    calibration = ""
    source = "user" if path or own.is_file() else "shipped"
    if source == "user":
        calibration = str(path or own)
        entries += (replace(entry, origin=USER) for entry in _profile_of(gpu, Path(calibration)).entries)
    if shipped.is_file():
        entries += _profile_of(gpu, shipped).entries
    return KernelProfile(gpu.id, tuple(entries), source, family_defaults(gpu), calibration)


def _profile_of(gpu: Gpu, path: Path) -> KernelProfile:
    """The profile in the file, if it is that of ``gpu``: a copied or renamed file must not lend its times to another GPU."""
    data = _read_json(path)
    profile = _parsed(data, path.name)
    spellings = (gpu.id, gpu.name, *gpu.aliases, *gpu.nvml_names)
    away = f"Move {path} away; on this GPU, specadvisor calibrate --gpu {gpu.id} makes a new one."
    conditions = data.get("conditions")
    invented = isinstance(conditions, dict) and bool(conditions.get("stand_in"))
    if invented or STAND_IN in (_bare(profile.gpu), _bare(profile.source)):
        raise InputError(f"{path.name}: source", "a test's stand-in with invented times", f"measurements of {gpu.id}", away)
    if _bare(profile.gpu) not in map(_bare, spellings):
        raise InputError(f"{path.name}: gpu", profile.gpu, gpu.id, away)
    return profile


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def family_defaults(gpu: Gpu) -> tuple[KernelEntry, ...]:
    """Default entries of the family that holds this GPU's compute capability, with this GPU's state and errors."""
    families = _families()
    family = next((f for f in families if f["sm"][0] <= gpu.sm <= f["sm"][1]), families[0])
    near = gpu.id in family["measured"] or gpu.id in family["siblings"]
    return tuple(_default_entry(row, near) for row in family["entries"])


def read_kernel_profile(path: str | Path) -> KernelProfile:
    """The profile in one JSON file; raises ``InputError`` naming the file, the entry and the field that is wrong."""
    path = Path(path)
    return _parsed(_read_json(path), path.name)


def _parsed(data: Mapping[str, Any], where: str) -> KernelProfile:
    _check_version(data, where)
    _check_keys(data, _TOP, {"gpu", "entries"}, where)
    if not isinstance(data["entries"], list):
        raise InputError(f"{where}: entries", type(data["entries"]).__name__, "a list of entries")
    entries = tuple(_entry(row, f"{where}: entry {i}") for i, row in enumerate(data["entries"], 1))
    return KernelProfile(str(data["gpu"]), entries, str(data.get("source", "user")))


def profile_to_json(profile: KernelProfile) -> str:
    """The profile as JSON text (family defaults are not part of it)."""
    rows = [_to_row(e) for e in profile.entries]
    head = {"schema_version": SCHEMA_VERSION, "gpu": profile.gpu, "source": profile.source}
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    return json.dumps(head, indent=2)[:-2] + ',\n  "entries": [\n' + lines + "\n  ]\n}\n"


def write_kernel_profile(profile: KernelProfile, path: str | Path | None = None) -> Path:
    """Write atomically; without ``path`` to the user's folder, where ``load_kernel_profile`` finds it. Returns the path."""
    target = Path(path) if path else user_dir() / "kernels" / f"{profile.gpu}.json"
    write_atomically(target, profile_to_json(profile))
    return target


@cache
def _families() -> list[dict[str, Any]]:
    path = profiles_dir() / "kernels" / "families.json"
    data = _read_json(path)
    _check_version(data, path.name)
    families: list[dict[str, Any]] = data["families"]
    return families


def _default_entry(row: Mapping[str, Any], near: bool) -> KernelEntry:
    state = "sibling" if near and row.get("sibling_error") else "extrapolated"
    median, p90 = row["sibling_error"] if state == "sibling" else row["extrapolated_error"]
    where = f"families.json: {row['operator']} {row['format']}"
    parameters = _parameters(row["operator"], row["parameters"], where)
    provenance, kernel = row.get("provenance", {}), row.get("kernel", "")
    return KernelEntry(
        row["operator"], row["format"], row["engine"], parameters, state, median, p90, provenance, kernel, FAMILY
    )


def _entry(row: object, where: str) -> KernelEntry:
    if not isinstance(row, dict):
        raise InputError(where, row, "an object with " + ", ".join(sorted(_ENTRY)))
    _check_keys(row, _ENTRY, _ENTRY - {"kernel", "provenance"}, where)
    operator, state = row["operator"], row["state"]
    if operator not in OPERATORS:
        raise InputError(f"{where}: operator", operator, ", ".join(OPERATORS), nearest(str(operator), OPERATORS))
    if state not in STATES:
        raise InputError(f"{where}: state", state, ", ".join(STATES), nearest(str(state), STATES))
    error = row["error"]
    if not isinstance(error, dict) or set(error) != {"median", "p90"}:
        raise InputError(f"{where}: error", error, '{"median": number, "p90": number}')
    median = _number(error["median"], 0.0, 10.0, f"{where}: error median")
    p90 = _number(error["p90"], 0.0, 100.0, f"{where}: error p90")
    parameters = _parameters(operator, row["parameters"], where)
    provenance = _provenance(row.get("provenance", {}), where)
    text = {key: str(row.get(key, "")) for key in ("format", "engine", "kernel")}
    return KernelEntry(operator, text["format"], text["engine"], parameters, state, median, p90, provenance, text["kernel"])


def _provenance(given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InputError(f"{where}: provenance", given, 'an object such as {"source": "..."}', "Leave it out if unknown.")
    for key, kind, text in (("dropped", dict, "an object of counts by reason"), ("warnings", list, "a list of texts")):
        if not isinstance(given.get(key, kind()), kind):
            raise InputError(f"{where}: provenance {key}", given[key], text)
    return given


def _parameters(operator: str, given: object, where: str) -> dict[str, float]:
    bounds = OPERATORS[operator]
    if not isinstance(given, dict):
        raise InputError(f"{where}: parameters", given, "an object with " + ", ".join(bounds))
    if unknown := set(given) - set(bounds):
        name = sorted(unknown)[0]
        raise InputError(f"{where}: parameter", name, ", ".join(bounds), nearest(name, bounds))
    found: dict[str, float] = {}
    for name, bound in bounds.items():
        value = given.get(name, bound.default)
        if value is None:
            raise InputError(f"{where}: parameter {name}", "missing", f"a number from {bound.low:g} to {bound.high:g}")
        found[name] = _number(value, bound.low, bound.high, f"{where}: parameter {name}")
    return found


def _number(value: object, low: float, high: float, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not low <= value <= high:
        raise InputError(where, value, f"a number from {low:g} to {high:g}")
    return float(value)


def _to_row(entry: KernelEntry) -> dict[str, Any]:
    row: dict[str, Any] = {"operator": entry.operator, "format": entry.format, "engine": entry.engine}
    if entry.kernel:
        row["kernel"] = entry.kernel
    row["state"] = entry.state
    row["parameters"] = {name: float(f"{value:.4g}") for name, value in entry.parameters.items()}
    row["error"] = {"median": round(entry.median_error, 4), "p90": round(entry.p90_error, 4)}
    row["provenance"] = dict(entry.provenance)
    return row


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("kernel profile", str(path), "a readable JSON file", error.strerror or "") from error
    except ValueError as error:
        raise InputError("kernel profile", str(path), "valid JSON", f"The parser says: {error}.") from error
    if not isinstance(data, dict):
        raise InputError("kernel profile", str(path), "a JSON object with gpu and entries")
    return data


def _check_version(data: Mapping[str, Any], where: str) -> None:
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        hint = "Calibrate again or update specadvisor." if version else "Add it if the file was written by hand."
        raise InputError(f"{where}: schema_version", version, str(SCHEMA_VERSION), hint)


def _check_keys(data: Mapping[str, Any], known: set[str], required: set[str], where: str) -> None:
    if missing := sorted(required - set(data)):
        raise InputError(f"{where}: {missing[0]}", "missing", ", ".join(sorted(known)))
    if unknown := sorted(set(data) - known):
        raise InputError(f"{where}: key", unknown[0], ", ".join(sorted(known)), nearest(unknown[0], known))
