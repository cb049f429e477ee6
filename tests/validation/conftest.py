from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from specadvisor.validation import Validation, validate
from specadvisor.validation.sweeps import read_sweeps

DATA = Path(__file__).parents[2] / "benchmarks" / "data" / "sweeps"
CONFIGS = (DATA / "configs",)


@pytest.fixture(scope="session")
def sweeps() -> pd.DataFrame:
    """The published sweeps."""
    return read_sweeps(DATA / "dev.csv")


@pytest.fixture(scope="session")
def checked() -> Validation:
    """The published sweeps, predicted and scored once."""
    return validate(DATA / "dev.csv", CONFIGS, draws=50)
