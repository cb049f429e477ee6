"""All-reduce over fake ranks (threads) with an invented clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_engines.loading import loaded

from specadvisor.calibration.collectives import ALL_REDUCES, SIZES, measure_all_reduce


@pytest.fixture(autouse=True)
def fakes() -> Iterator[Any]:
    with loaded() as kernels:
        yield kernels


@pytest.mark.parametrize("engine", ALL_REDUCES)
@pytest.mark.parametrize("ranks", [2, 4])
def test_sum_and_time(engine: str, ranks: int) -> None:
    from torch import distributed

    found = measure_all_reduce(engine, ranks, SIZES[:4])
    assert [size for size, _ in found] == list(SIZES[:4])
    for size, seconds in found:
        moved = 2 * (ranks - 1) / ranks * size / distributed.LINK_BYTES_PER_S
        assert seconds == pytest.approx([distributed.FLOOR_S + moved] * 10)


@pytest.mark.parametrize("engine", ALL_REDUCES)
def test_a_wrong_sum_is_noticed(engine: str) -> None:
    from torch import distributed

    distributed.defects.add("a rank is left out")
    with pytest.raises(RuntimeError, match="wrong sum"):
        measure_all_reduce(engine, 2, SIZES[:1])


def test_sglang_without_peer_access_is_not_called_its_kernel(fakes: Any) -> None:
    fakes.planted.add("no peer access")
    with pytest.raises(RuntimeError, match="disabled"):
        measure_all_reduce("sglang", 2, SIZES[:1])


def test_an_older_sglang_asks_nothing_before_it_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.distributed.device_communicators import custom_all_reduce

    monkeypatch.setattr(custom_all_reduce, "dispatch_custom_allreduce", lambda: custom_all_reduce.CustomAllreduce)
    assert len(measure_all_reduce("sglang", 2, SIZES[:2])) == 2
