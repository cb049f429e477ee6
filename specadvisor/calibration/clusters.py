"""Dask and Ray clusters behind one interface; their addresses tell them apart."""

from __future__ import annotations

import contextlib
import logging
import socket
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from specadvisor.errors import InputError, MissingDependency, SpecadvisorError

CONNECT_S = 10.0
_PORTS = {"tcp": 8786, "tls": 8786, "ray": 10001}


class Cluster(Protocol):
    """What a cluster must do: run a function without arguments on one named worker and return its result.

    ``run`` raises ``SpecadvisorError``, whatever went wrong on the worker or on the way.
    """

    def workers(self) -> list[str]: ...

    def run(self, worker: str, function: Callable[[], Any], timeout_s: float) -> Any: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Failure:
    """What a worker sends instead of an exception: those of other packages, and our own, do not all survive pickling."""

    text: str


def guarded(function: Callable[[], Any]) -> Any:
    """The function's result, or what it raised as a ``Failure``. Runs on the worker."""
    try:
        return function()
    except SpecadvisorError as error:
        return Failure(str(error))
    except Exception as error:
        return Failure(_one_line(error))


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _result(outcome: Any) -> Any:
    if isinstance(outcome, Failure):
        raise SpecadvisorError(outcome.text)
    return outcome


def connect(address: str) -> Cluster:
    """The cluster behind ``address``: ``tcp://`` or ``tls://`` is Dask's scheduler, ``ray://`` a Ray client server."""
    return RayCluster(address) if check_address(address) == "ray" else DaskCluster(address)


def check_address(address: str) -> str:
    """The scheme of ``address``; raises ``InputError`` for one that no cluster here has."""
    scheme, separator, host = address.partition("://")
    if scheme not in _PORTS or not separator or not host:
        raise InputError("executor", address, "tcp://host:8786 (Dask) or ray://host:10001 (Ray)")
    return scheme


def _require_listener(address: str, what: str) -> None:
    """Raise ``InputError`` unless something accepts connections at ``address``: the clients retry for half a minute."""
    scheme, _, place = address.partition("://")
    host, separator, port = place.partition("/")[0].rpartition(":")
    try:
        host, number = (host, int(port)) if separator else (port, _PORTS[scheme])
        socket.create_connection((host.strip("[]"), number), timeout=CONNECT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise InputError("executor", address, what, f"{error}.") from error


class DaskCluster:
    """Workers of a Dask scheduler, which must have specadvisor installed."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingDependency("distributed", "a Dask address", "pip install distributed") from error
        what = "a Dask scheduler that answers"
        _require_listener(address, what)
        try:
            self._client = Client(address, timeout=CONNECT_S)
        except Exception as error:  # also what its message layer raises where something else listens
            raise InputError("executor", address, what, _one_line(error)) from error

    def workers(self) -> list[str]:
        return sorted(self._client.ncores())

    def run(self, worker: str, function: Callable[[], Any], timeout_s: float) -> Any:
        future = self._client.submit(guarded, function, workers=[worker], allow_other_workers=False, pure=False)
        try:
            outcome = future.result(timeout=timeout_s)
        except TimeoutError as error:
            raise SpecadvisorError(f"no answer within {timeout_s:.0f} s; the worker may be busy.") from error
        except Exception as error:  # a lost worker, or one without specadvisor
            raise SpecadvisorError(_one_line(error)) from error
        finally:
            future.cancel()
        return _result(outcome)

    def close(self) -> None:
        self._client.close()


class RayCluster:
    """Nodes of a Ray cluster that offer GPUs; each run takes one whole GPU of its node."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependency("ray", "a Ray address", "pip install 'ray[client]'") from error
        what = "a Ray client server that answers"
        _require_listener(address, what)
        for name in ("ray", "ray.client_builder"):  # the second is not the first's child in every version
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(address, ignore_reinit_error=True, log_to_driver=False)
        except Exception as error:  # the client raises a bare ValueError or RuntimeError for most of what can be wrong
            hint = _one_line(error)
            if "ray[client]" in hint:
                raise MissingDependency("the Ray client", "a Ray address", "pip install 'ray[client]'") from error
            raise InputError("executor", address, what, hint) from error
        self._ray = ray

    def workers(self) -> list[str]:
        return [n["NodeID"] for n in self._ray.nodes() if n["Alive"] and n["Resources"].get("GPU", 0) >= 1]

    def run(self, worker: str, function: Callable[[], Any], timeout_s: float) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node_id=worker, soft=False)
        # A fresh process: one that has used a GPU before keeps memory there.
        task = self._ray.remote(num_gpus=1, max_calls=1, max_retries=0, scheduling_strategy=place)(guarded).remote(function)
        try:
            outcome = self._ray.get(task, timeout=timeout_s)
        except self._ray.exceptions.GetTimeoutError as error:
            with contextlib.suppress(Exception):
                self._ray.cancel(task, force=True)
            raise SpecadvisorError(f"no answer within {timeout_s:.0f} s; its GPUs may all be taken.") from error
        except Exception as error:  # a lost node, or one without specadvisor: Ray wraps what was raised
            raise SpecadvisorError(_one_line(getattr(error, "cause", None) or error)) from error
        return _result(outcome)

    def close(self) -> None:
        self._ray.shutdown()
