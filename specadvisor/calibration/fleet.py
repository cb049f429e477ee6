"""One calibration per kind of GPU in a cluster, on a worker that has it. Knows Dask and Ray by their addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from specadvisor.calibration.save import refuse_stand_in, target_path, write_together
from specadvisor.errors import InputError, MissingDependency, SpecadvisorError


class Cluster(Protocol):
    """What a cluster must do: run a function without arguments on one named worker and return its result."""

    def workers(self) -> list[str]: ...

    def run(self, worker: str, function: Callable[[], Any]) -> Any: ...

    def close(self) -> None: ...


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
    import tempfile

    from specadvisor.calibration import calibrate, driver

    with tempfile.TemporaryDirectory() as folder:
        done = calibrate(out=folder, **options)
        texts = {suffix: done.path.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".csv", ".json")}
        return {"gpu": done.path.stem, "texts": texts, "stand_in": driver.is_stand_in(), "notes": list(done.notes)}


def calibrate_fleet(
    address: str, options: Mapping[str, Any], out: str | Path | None, note: Callable[[str], None]
) -> list[tuple[str, str, Path]]:
    """(kind of GPU, worker, profile) of every kind found; raises ``InputError`` if no worker has a GPU."""
    cluster = connect(address)
    try:
        return calibrate_on(cluster, options, out, note)
    finally:
        cluster.close()


def calibrate_on(
    cluster: Cluster, options: Mapping[str, Any], out: str | Path | None, note: Callable[[str], None]
) -> list[tuple[str, str, Path]]:
    """``calibrate_fleet`` on an open cluster; a worker that fails is reported and the next one of its kind is tried."""
    kinds: dict[str, list[str]] = {}
    for worker in cluster.workers():
        if name := cluster.run(worker, local_gpu_name):
            kinds.setdefault(name, []).append(worker)
    if not kinds:
        raise InputError("executor", f"{len(cluster.workers())} workers", "a cluster with NVIDIA GPUs", "No worker sees a GPU.")
    found = []
    for name, workers in kinds.items():
        for worker in workers:
            note(f"{name}: measuring on {worker}")
            try:
                result = cluster.run(worker, lambda: calibrate_here(options))
            except SpecadvisorError as error:
                note(f"{name} on {worker}: {error}")
                continue
            found.append((name, worker, _store(result, out)))
            for text in result["notes"]:
                note(f"{name}: {text}")
            break
    return found


def _store(result: Mapping[str, Any], out: str | Path | None) -> Path:
    if out is not None and Path(out).suffix.lower() == ".json":
        raise InputError("out", str(out), "a folder", "A fleet writes one profile per kind of GPU.")
    path = target_path(str(result["gpu"]), out)
    if result["stand_in"]:
        refuse_stand_in(path)
    write_together({path.with_suffix(suffix): text for suffix, text in result["texts"].items()})
    return path


def connect(address: str) -> Cluster:
    """The cluster behind ``address``: ``tcp://`` or ``tls://`` is Dask's scheduler, ``ray://`` a Ray client server."""
    return RayCluster(address) if check_address(address) == "ray" else DaskCluster(address)


def check_address(address: str) -> str:
    """The scheme of ``address``; raises ``InputError`` for one that no cluster here has."""
    scheme, separator, host = address.partition("://")
    if scheme not in ("tcp", "tls", "ray") or not separator or not host:
        raise InputError("executor", address, "tcp://host:8786 (Dask) or ray://host:10001 (Ray)")
    return scheme


class DaskCluster:
    """Workers of a Dask scheduler, which must have specadvisor installed."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingDependency("distributed", "a Dask address", "pip install distributed") from error
        try:
            self._client = Client(address, timeout=10)
        except (OSError, TimeoutError) as error:
            raise InputError("executor", address, "a Dask scheduler that answers", str(error)) from error

    def workers(self) -> list[str]:
        return sorted(self._client.ncores())

    def run(self, worker: str, function: Callable[[], Any]) -> Any:
        return self._client.submit(function, workers=[worker], allow_other_workers=False, pure=False).result()

    def close(self) -> None:
        self._client.close()


class RayCluster:
    """Nodes of a Ray cluster that offer GPUs; each run takes one whole GPU of its node."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependency("ray", "a Ray address", "pip install ray") from error
        try:
            ray.init(address, ignore_reinit_error=True)
        except (OSError, ConnectionError) as error:
            raise InputError("executor", address, "a Ray cluster that answers", str(error)) from error
        self._ray = ray

    def workers(self) -> list[str]:
        return [n["NodeID"] for n in self._ray.nodes() if n["Alive"] and n["Resources"].get("GPU", 0) >= 1]

    def run(self, worker: str, function: Callable[[], Any]) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node_id=worker, soft=False)
        return self._ray.get(self._ray.remote(num_gpus=1, scheduling_strategy=place)(lambda: function()).remote())

    def close(self) -> None:
        self._ray.shutdown()
