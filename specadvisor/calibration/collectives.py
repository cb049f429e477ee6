"""All-reduce between the GPUs of this machine, one process per GPU: NCCL, and what vLLM and SGLang call instead.

vLLM dispatches by size and GPU between FlashInfer, its custom kernel, symmetric memory and NCCL, SGLang between its custom
kernel and NCCL; both register the buffers of a captured graph. Checked against vLLM 0.33 and SGLang 0.5.23.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np

from specadvisor.calibration.engine_calls import accepted

SIZES = tuple(2**p for p in (13, 15, 17, 19, 20, 21, 22, 24, 26))
CALLS = 20
REPLAYS = 12
NCCL = "nccl"
PROCESS_BACKEND = "nccl"
_TIMEOUT = timedelta(seconds=120)

# What one rank needs to measure: the call, and what surrounds the capture of a graph with it.
Reduce = Callable[[Any], Any]
Capturing = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def _nccl(torch: Any, rank: int, ranks: int, port: int) -> Iterator[tuple[Reduce, Capturing]]:
    """NCCL through torch, in place."""
    distributed = torch.distributed
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group(PROCESS_BACKEND, init_method=address, rank=rank, world_size=ranks, timeout=_TIMEOUT)

    def reduce(x: Any) -> Any:
        distributed.all_reduce(x)
        return x

    try:
        yield reduce, contextlib.nullcontext
    finally:
        distributed.destroy_process_group()


@contextlib.contextmanager
def _vllm(torch: Any, rank: int, ranks: int, port: int) -> Iterator[tuple[Reduce, Capturing]]:
    """The tensor-parallel group as a vLLM worker has it."""
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed import (
        destroy_distributed_environment,
        destroy_model_parallel,
        graph_capture,
        init_distributed_environment,
        initialize_model_parallel,
        tensor_model_parallel_all_reduce,
    )

    address = f"tcp://127.0.0.1:{port}"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(
            world_size=ranks, rank=rank, distributed_init_method=address, local_rank=rank, backend=PROCESS_BACKEND
        )
        initialize_model_parallel(tensor_model_parallel_size=ranks)
        try:
            yield tensor_model_parallel_all_reduce, lambda: graph_capture(device=torch.device("cuda", rank))
        finally:
            destroy_model_parallel()
            destroy_distributed_environment()


@contextlib.contextmanager
def _sglang(torch: Any, rank: int, ranks: int, port: int) -> Iterator[tuple[Reduce, Capturing]]:
    """SGLang's custom all-reduce where it takes the message, else NCCL."""
    from sglang.srt.distributed.device_communicators.custom_all_reduce import dispatch_custom_allreduce

    with _nccl(torch, rank, ranks, port) as (nccl, _):
        group, device = torch.distributed.new_group(backend="gloo"), torch.device("cuda", rank)
        kind = dispatch_custom_allreduce(**accepted(dispatch_custom_allreduce, group=group, device=device))
        own = kind(group=group, device=device)
        if own.disabled:
            raise RuntimeError("SGLang's custom all-reduce is disabled on these GPUs")
        try:
            yield lambda x: own.custom_all_reduce(x) if own.should_custom_ar(x) else nccl(x), own.capture
        finally:
            own.close()


# Engine -> (module that must be installed, kernel as the rows name it, the call).
ALL_REDUCES: dict[str, tuple[str, str, Callable[..., contextlib.AbstractContextManager[tuple[Reduce, Capturing]]]]] = {
    NCCL: ("torch", "NCCL", _nccl),
    "vllm": ("vllm", "tensor-parallel group", _vllm),
    "sglang": ("sglang", "custom all-reduce", _sglang),
}


def measure_all_reduce(engine: str, ranks: int, sizes: tuple[int, ...] = SIZES) -> list[tuple[int, list[float]]]:
    """(message bytes, sorted seconds) per size on the first ``ranks`` GPUs with the call of ``engine``.

    Raises what torch or the engine raises in any rank, and ``RuntimeError`` for a wrong sum.
    """
    import torch.multiprocessing as multiprocessing

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(rank_main, args=(engine, ranks, port, sizes, results), nprocs=ranks)
    found: list[tuple[int, list[float]]] = results.get()
    return found


def rank_main(rank: int, engine: str, ranks: int, port: int, sizes: tuple[int, ...], results: Any) -> None:
    """One rank; the first puts what it measured into ``results``."""
    import torch

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    torch.cuda.set_device(rank)
    with ALL_REDUCES[engine][2](torch, rank, ranks, port) as (reduce, capturing):
        found = [(size, _seconds(torch, reduce, capturing, rank, ranks, size)) for size in sizes]
        torch.distributed.barrier()
    if rank == 0:
        results.put(found)


def _seconds(torch: Any, reduce: Reduce, capturing: Capturing, rank: int, ranks: int, size: int) -> list[float]:
    """Sorted seconds per call over the replays of a graph, the first two left out; the sum is checked before."""
    pattern = (np.arange(size // 2) % 5 - 2).astype(np.float32)  # times ranks (ranks + 1) / 2 it is exact in bf16
    mine = torch.from_numpy(pattern * (rank + 1)).to("cuda").to(torch.bfloat16)
    x = mine.clone()
    got = reduce(x).float().cpu().numpy()
    if not np.array_equal(got, pattern * (ranks * (ranks + 1) // 2)):
        raise RuntimeError(f"all-reduce of {size} bytes over {ranks} ranks gave a wrong sum")
    x.copy_(mine)
    torch.cuda.synchronize()
    with capturing():
        graph = torch.cuda.CUDAGraph()
        # NCCL's watchdog thread may ask for events meanwhile: only this thread's capture must not be disturbed.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(CALLS):
                reduce(x)
    seconds = []
    for _ in range(REPLAYS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.distributed.barrier()
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        seconds.append(1e-3 * float(start.elapsed_time(stop)) / CALLS)
    return sorted(seconds[2:])
