"""All-reduce between the GPUs of this machine: NCCL through torch, one process per GPU."""

from __future__ import annotations

import os
from typing import Any

SIZES = tuple(2**p for p in (13, 15, 17, 19, 20, 21, 22, 24, 26))
CALLS = 20


def _worker(rank: int, ranks: int, port: int, sizes: tuple[int, ...], results: Any) -> None:
    import torch
    import torch.distributed as distributed

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    try:
        for size in sizes:
            x = torch.ones(size // 2, dtype=torch.bfloat16, device="cuda")
            distributed.all_reduce(x)
            torch.cuda.synchronize()
            if float(x[0]) != ranks:
                raise RuntimeError(f"all-reduce of ones over {ranks} ranks gave {float(x[0])}")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(CALLS):
                    distributed.all_reduce(x)
            seconds = []
            for _ in range(10):
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                distributed.barrier()
                start.record()
                graph.replay()
                stop.record()
                stop.synchronize()
                seconds.append(1e-3 * start.elapsed_time(stop) / CALLS)
            if rank == 0:
                results.put((size, sorted(seconds[2:])))
    finally:
        distributed.destroy_process_group()


def measure_all_reduce(ranks: int, sizes: tuple[int, ...] = SIZES) -> list[tuple[int, list[float]]]:
    """(message bytes, sorted seconds) per size on the first ``ranks`` GPUs; raises what torch raises."""
    import socket

    import torch.multiprocessing as multiprocessing

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    multiprocessing.spawn(_worker, args=(ranks, port, sizes, results), nprocs=ranks)
    return [results.get() for _ in sizes]
