"""One calibration per kind of GPU: the order of work without a cluster, and real Dask and Ray clusters where installed."""

from __future__ import annotations

import json
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_in_process import StandIn

from specadvisor.calibration import clusters, fleet
from specadvisor.calibration.save import profile_text
from specadvisor.errors import InputError, MissingDependency, SpecadvisorError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.kernel_profile import KernelProfile


class FakeCluster:
    """Four workers: two H200, one of which fails, an L4 and one without GPU; ``silent`` ones never answer."""

    def __init__(self, names: dict[str, str] | None = None, silent: str = "") -> None:
        self.measured: list[str] = []
        self._names = {"a": "NVIDIA H200", "b": "NVIDIA H200", "c": "NVIDIA L4", "d": ""} if names is None else names
        self._silent = silent

    def workers(self) -> list[str]:
        return list(self._names)

    def close(self) -> None:
        self.measured.append("closed")

    def run(self, worker: str, function: Callable[[], Any], timeout_s: float) -> Any:
        if worker in self._silent:
            raise SpecadvisorError("no answer")
        if function is fleet.local_gpu_name:
            return self._names[worker]
        self.measured.append(worker)
        if worker == "a":
            raise SpecadvisorError("throttled")
        gpu = "l4" if worker == "c" else "h200_sxm"
        entry = load_gpu("h200_sxm").kernels.entries[0]
        profile = profile_text(KernelProfile(gpu, (entry,), "user"), {"device": self._names[worker]}, {})
        texts = {".csv": f"operator,us\n# rows of {worker}\n", ".json": profile}
        return {"gpu": gpu, "texts": texts, "stand_in": False, "notes": []}


def test_each_kind_is_measured_once(tmp_path: Path) -> None:
    cluster, notes = FakeCluster(), []
    found = fleet.calibrate_on(cluster, {"quick": True}, tmp_path, notes.append)
    assert [(kind, worker, path.name) for kind, worker, path in found] == [
        ("NVIDIA H200", "b", "h200_sxm.json"),
        ("NVIDIA L4", "c", "l4.json"),
    ]
    assert cluster.measured == ["a", "b", "c"]
    assert "rows of b" in (tmp_path / "h200_sxm.csv").read_text()
    assert "NVIDIA H200 on a: throttled" in notes


def test_the_cluster_is_closed_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster({})
    monkeypatch.setattr(fleet, "connect", lambda address: cluster)
    with pytest.raises(InputError):
        fleet.calibrate_fleet("tcp://x:1", {}, tmp_path, lambda text: None)
    assert cluster.measured == ["closed"]


def test_without_gpus_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No worker sees a free GPU"):
        fleet.calibrate_on(FakeCluster({"d": ""}), {}, tmp_path, lambda text: None)


def test_a_worker_that_does_not_answer_is_left_out(tmp_path: Path) -> None:
    notes: list[str] = []
    found = fleet.calibrate_on(FakeCluster(silent="ab"), {}, tmp_path, notes.append)
    assert [worker for _, worker, _ in found] == ["c"]
    assert "a: left out, no answer" in notes


def test_what_was_written_is_known_at_once_also_if_the_next_gpu_is_interrupted(tmp_path: Path) -> None:
    class Interrupted(FakeCluster):
        def run(self, worker: str, function: Callable[[], Any], timeout_s: float) -> Any:
            if worker == "c" and function is not fleet.local_gpu_name:
                raise KeyboardInterrupt
            return super().run(worker, function, timeout_s)

    written: list[Path] = []
    with pytest.raises(KeyboardInterrupt):
        fleet.calibrate_on(Interrupted(), {}, tmp_path, lambda text: None, written.append)
    assert written == [tmp_path / "h200_sxm.json"]


def test_a_fleet_leaves_other_files_alone_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "h200_sxm.json").write_text('{"mine": 1}')
    notes: list[str] = []
    found = fleet.calibrate_on(FakeCluster(), {}, tmp_path, notes.append)
    assert [path.name for _, _, path in found] == ["l4.json"]
    assert (tmp_path / "h200_sxm.json").read_text() == '{"mine": 1}'
    assert any("This file is something else" in note for note in notes)


def test_if_every_worker_fails_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecadvisorError, match="No GPU could be measured"):
        fleet.calibrate_on(FakeCluster({"a": "NVIDIA H200"}), {}, tmp_path, lambda text: None)
    assert not list(tmp_path.iterdir())


def test_a_json_file_is_refused_before_measuring(tmp_path: Path) -> None:
    cluster = FakeCluster()
    with pytest.raises(InputError, match="a folder"):
        fleet.calibrate_on(cluster, {}, tmp_path / "one.json", lambda text: None)
    assert not cluster.measured


def refused() -> None:
    raise InputError("gpu", "x", "y", "z")


def broken() -> None:
    raise KeyError("k")


def test_errors_of_workers_travel_as_text() -> None:
    failure = pickle.loads(pickle.dumps(clusters.guarded(refused)))
    assert failure == clusters.Failure("gpu: 'x' cannot be used; accepted: y. z")
    assert clusters.guarded(broken).text.startswith("KeyError")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("address", ["http://somewhere", "tcp://", "ray", "10.0.0.1:8786"])
def test_unknown_addresses(address: str) -> None:
    with pytest.raises(InputError, match=r"tcp://host:8786 \(Dask\)"):
        fleet.connect(address)


@pytest.mark.parametrize("address", ["ray://127.0.0.1:PORT", "tcp://127.0.0.1:PORT", "ray://127.0.0.1:x", "tcp://[::1]:99999"])
def test_nobody_listens(address: str) -> None:
    with pytest.raises(InputError, match="something that answers"):
        clusters._require_listener(address.replace("PORT", str(free_port())), "something that answers")


def test_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clusters._require_listener(f"ray://127.0.0.1:{listener.getsockname()[1]}/path", "a server")


@pytest.mark.parametrize(("module", "address"), [("ray", "ray://127.0.0.1:1"), ("distributed", "tcp://127.0.0.1:1")])
def test_without_the_package_its_install_line_is_named(module: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match="pip install"):
        fleet.connect(address)


# What a real cluster must do: answer, carry errors as one line, give up on a busy worker, measure and bring the files home.
PROBE = """
import json, os, sys, time
from pathlib import Path
from specadvisor.calibration import clusters, fleet
from specadvisor.errors import InputError, SpecadvisorError

def refused():
    raise InputError("gpu", "x", "y", "z")

def slow():
    time.sleep(60)

def attempt(function, timeout_s=60.0):
    try:
        return cluster.run(worker, function, timeout_s)
    except SpecadvisorError as error:
        return str(error)

def main():
    global cluster, worker
    address, out = start()
    cluster = fleet.connect(address)
    worker = cluster.workers()[0]
    answers = [attempt(fleet.local_gpu_name), attempt(refused), attempt(slow, 2.0)]
    cluster.close()
    options = {"quick": True, "formats": ["bf16"]}
    found = fleet.calibrate_fleet(address, options, out, lambda text: None)
    return [answers, [[kind, path.name] for kind, _, path in found], sorted(p.name for p in Path(out).iterdir())]
"""
EXPECTED = [
    ["NVIDIA H200", "gpu: 'x' cannot be used; accepted: y. z", "no answer within 2 s"],
    [["NVIDIA H200", "h200_sxm.json"]],
    ["h200_sxm.csv", "h200_sxm.json"],
]


def check(text: str, stand_in: StandIn, command: list[str]) -> None:
    # Dask's own NVML monitor asks for more than the stand-in has
    settings = {"PYTHONPATH": ":".join(p for p in sys.path if p), "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False"}
    done = stand_in._run([*command, sys.executable, "-c", PROBE + text], settings)
    assert done.returncode == 0, done.stderr
    answers, found, files = json.loads(done.stdout.splitlines()[-1])
    answers[2] = answers[2].partition(";")[0]
    assert [answers, found, files] == EXPECTED
    assert "Traceback" not in done.stderr


def test_a_dask_cluster(stand_in: StandIn, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    text = f"""
from distributed import LocalCluster
local = None
def start():
    return local.scheduler_address, {str(tmp_path / "out")!r}
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address=None) as local:
        print(json.dumps(main()), flush=True)
"""
    check(text, stand_in, [])


def test_a_ray_cluster(stand_in: StandIn, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("grpc", reason="ray[client] is not installed")
    # Ray listens on every interface: it gets a network of its own, with nothing but loopback
    alone = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or shutil.which("ip") is None or subprocess.run([*alone, "true"]).returncode:
        pytest.skip("needs unshare and ip, and the right to use them")
    short = tempfile.mkdtemp(prefix="ray")  # for sockets, whose paths may not be long
    text = f"""
import socket, subprocess
def start():
    head = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--num-gpus=1", "--num-cpus=1",
            "--node-ip-address=127.0.0.1", "--ray-client-server-port=10001", "--include-dashboard=false",
            "--disable-usage-stats", "--object-store-memory=100000000", "--temp-dir={short}"]
    subprocess.run(head, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):  # the client server comes up after the head
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", 10001)) == 0:
                break
        time.sleep(0.2)
    return "ray://127.0.0.1:10001", {str(tmp_path / "out")!r}
if __name__ == "__main__":
    print(json.dumps(main()), flush=True)
"""
    try:
        check(text, stand_in, [*alone, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"])
    finally:
        shutil.rmtree(short, ignore_errors=True)
