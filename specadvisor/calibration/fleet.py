"""One calibration per kind of GPU in a cluster, on a worker that has it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from specadvisor.calibration.clusters import Cluster, connect
from specadvisor.calibration.save import put, refuse_stand_in, target_path
from specadvisor.errors import InputError, SpecadvisorError
from specadvisor.hardware.kernel_profile import read_kernel_profile

# A worker that serves a model keeps its GPU: it would never answer.
PROBE_S, MEASURE_S = 60.0, 1800.0
Note = Callable[[str], None]
Saved = Callable[[Path], None]


def local_gpu_name() -> str:
    """The name of this worker's first GPU, or an empty string. Runs on the worker."""
    from specadvisor.calibration import driver

    try:
        with driver.opened() as device:
            return device.name
    except SpecadvisorError:
        return ""


def calibrate_here(options: Mapping[str, Any]) -> dict[str, Any]:
    """Measure this worker's GPU and return the profile's files as text. Runs on the worker, in a folder that is thrown away."""
    from specadvisor.calibration import calibrate, driver

    with tempfile.TemporaryDirectory() as folder:
        done = calibrate(out=folder, **options)
        texts = {suffix: done.path.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".csv", ".json")}
        return {"gpu": done.path.stem, "texts": texts, "stand_in": driver.is_stand_in(), "notes": list(done.notes)}


def calibrate_fleet(
    address: str, options: Mapping[str, Any], out: str | Path | None, note: Note, saved: Saved = lambda path: None
) -> list[tuple[str, str, Path]]:
    """(kind of GPU, worker, profile) of every kind found; raises ``InputError`` if no worker has a GPU.

    ``saved`` is called with each profile's path as soon as it and its measurements are there.
    """
    cluster = connect(address)
    try:
        return calibrate_on(cluster, options, out, note, saved)
    finally:
        cluster.close()


def calibrate_on(
    cluster: Cluster, options: Mapping[str, Any], out: str | Path | None, note: Note, saved: Saved = lambda path: None
) -> list[tuple[str, str, Path]]:
    """``calibrate_fleet`` on an open cluster; a worker that fails is reported and the next one of its kind is tried.

    Raises ``SpecadvisorError`` if workers have GPUs and none could be measured.
    """
    _check_out(out)
    kinds: dict[str, list[str]] = {}
    workers = cluster.workers()
    for worker in workers:
        try:
            name = cluster.run(worker, local_gpu_name, PROBE_S)
        except SpecadvisorError as error:
            note(f"{worker}: left out, {error}")
            continue
        if name:
            kinds.setdefault(name, []).append(worker)
    if not kinds:
        raise InputError("executor", f"{len(workers)} workers", "a cluster with NVIDIA GPUs", "No worker sees a free GPU.")
    found = []
    for name, candidates in kinds.items():
        for worker in candidates:
            note(f"{name}: measuring on {worker}")
            try:
                result = cluster.run(worker, partial(calibrate_here, options), MEASURE_S)
            except SpecadvisorError as error:
                note(f"{name} on {worker}: {error}")
                continue
            try:
                path, notes = _store(result, out, saved)
            except SpecadvisorError as error:  # measured, and not to be measured again: the message says where the rows are
                note(f"{name}: {error}")
                break
            found.append((name, worker, path))
            for text in (*result["notes"], *notes):
                note(f"{name}: {text}")
            break
    if not found:
        raise SpecadvisorError(f"No GPU could be measured and saved ({', '.join(kinds)}); no profile was written.")
    return found


def _check_out(out: str | Path | None) -> None:
    if out is not None and Path(out).suffix.lower() == ".json":
        raise InputError("out", str(out), "a folder", "A fleet writes one profile per kind of GPU.")


def _store(result: Mapping[str, Any], out: str | Path | None, saved: Saved) -> tuple[Path, tuple[str, ...]]:
    """(profile's path, notes) of a worker's files, put beside or onto what this machine has."""
    path = target_path(str(result["gpu"]), out)
    if result["stand_in"]:
        refuse_stand_in(path)
    data: dict[str, Any] = json.loads(result["texts"][".json"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        file.write_text(result["texts"][".json"], encoding="utf-8")
        profile = read_kernel_profile(file)
    return path, put(profile, data.get("conditions", {}), data.get("datasheet", {}), result["texts"][".csv"], path, saved)
