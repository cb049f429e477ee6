from __future__ import annotations

import numpy as np
import pytest

from specadvisor.advise.advisor import Advisor
from specadvisor.report.operating_points import operating_points


@pytest.fixture(scope="module")
def answer():
    return Advisor("qwen3-30b-a3b", "h200_sxm").recommend([1, 8, 64], drafters="eagle3")


def test_three_figures_and_nothing_else(answer, tmp_path):
    files = answer.plot(tmp_path / "figures")
    assert sorted(p.name for p in files) == ["roofline.png", "speedup_by_k.png", "speedup_map.png"]
    assert sorted((tmp_path / "figures").iterdir()) == sorted(files)
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in files)


def test_operators_climb_the_roofline_with_k_and_stay_below_it(answer):
    points = operating_points(answer, answer.curves["eagle3"], 8)
    assert {p.operator for p in points} == {"matrices", "experts", "attention"}
    gpu = answer.deployment.gpu
    for point in points:
        assert np.all(np.diff(point.intensity) >= 0)
        roof = np.minimum(gpu.peak("bf16"), point.intensity * gpu.memory_bytes_per_s)
        assert np.all(point.flop_per_s <= 1.1 * roof)


def test_attention_intensity_is_g_times_query_tokens(answer):
    attention = next(p for p in operating_points(answer, answer.curves["eagle3"], 1) if p.operator == "attention")
    np.testing.assert_allclose(attention.intensity, 8 * (attention.k + 1))
