"""What the model predicts of lists it has not seen (benchmarks/acceptance_model.py prints the whole table)."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "acceptance_model.py"


@pytest.fixture(scope="module")
def errors() -> dict[str, np.ndarray]:
    spec = importlib.util.spec_from_file_location("acceptance_model", BENCHMARK)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [module.list_errors(row) for row in module.long_lists()]
    assert len(found) == 37
    return {name: np.abs([each[name] for each in found]) for name in found[0]}


def test_al_7_from_four_positions_within_5_percent(errors: dict[str, np.ndarray]) -> None:
    assert np.median(errors["positions 1-4"]) < 0.05


def test_al_7_from_one_length_within_10_percent(errors: dict[str, np.ndarray]) -> None:
    for k in (1, 2, 3, 4):
        assert np.median(errors[f"AL({k})"]) < 0.10


def test_the_usual_shape_beats_flat_conditionals_from_one_length(errors: dict[str, np.ndarray]) -> None:
    for k in (1, 2, 3):
        assert np.median(errors[f"AL({k})"]) < np.median(errors[f"AL({k}), flat"])
