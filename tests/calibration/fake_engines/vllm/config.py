from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from fake_kernels import public


class VllmConfig: ...


@public
@contextlib.contextmanager
def set_current_vllm_config(vllm_config: Any, check_compile: Any = False, prefix: Any = None) -> Iterator[None]:
    yield
