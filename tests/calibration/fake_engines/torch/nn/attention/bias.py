from __future__ import annotations


def causal_lower_right(*size: int) -> tuple[int, ...]:
    return size
