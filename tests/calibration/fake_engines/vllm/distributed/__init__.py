"""The tensor-parallel group: its all-reduce is out of place and counts only inside ``graph_capture``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from fake_kernels import public


@public
def init_distributed_environment(
    world_size: Any = -1, rank: Any = -1, distributed_init_method: Any = "env://", local_rank: Any = -1,
    backend: Any = "nccl", timeout: Any = None,
) -> None:  # fmt: skip
    torch.distributed.init_process_group(backend=backend, world_size=world_size, rank=rank)


@public
def initialize_model_parallel(
    tensor_model_parallel_size: Any = 1, pipeline_model_parallel_size: Any = 1,
    prefill_context_model_parallel_size: Any = 1, decode_context_model_parallel_size: Any = 1, backend: Any = None,
) -> None: ...  # fmt: skip


@public
@contextlib.contextmanager
def graph_capture(device: Any) -> Iterator[None]:
    yield


@public
def tensor_model_parallel_all_reduce(input_: Any) -> Any:
    out = input_.clone()
    torch.distributed.all_reduce(out)
    return out


@public
def destroy_model_parallel() -> None: ...


@public
def destroy_distributed_environment() -> None: ...
