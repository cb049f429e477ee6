from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from fake_kernels import planted, public


class CustomAllreduce:
    @public
    def __init__(self, group: Any, device: Any, max_size: Any = 8 << 20) -> None:
        assert group == "gloo group", "must not be an NCCL group"
        self.disabled = "no peer access" in planted
        self.max_size = max_size

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        yield

    def should_custom_ar(self, inp: Any) -> bool:
        return inp.values.size * 2 <= self.max_size

    @public
    def custom_all_reduce(self, input: Any) -> Any:
        out = input.clone()
        torch.distributed.all_reduce(out)
        return out

    def close(self) -> None: ...


@public
def dispatch_custom_allreduce(group: Any, device: Any) -> type[CustomAllreduce]:
    return CustomAllreduce
