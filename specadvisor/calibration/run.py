"""What a measurement run returns, whatever it ran on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specadvisor.calibration.rows import Row

Progress = Callable[[float, str], None]  # planned seconds that are done, what is being measured


@dataclass
class Run:
    """Rows, the conditions they were measured under, and notes for the user, on the measurement and on what became of it.

    ``stand_in``: invented by a test's driver.
    """

    rows: list[Row] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stand_in: bool = False
    fit_notes: list[str] = field(default_factory=list)
