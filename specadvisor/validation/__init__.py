"""Predicts a table of measured sweeps and scores the predictions."""

from specadvisor.validation.score import Score
from specadvisor.validation.validate import Validation, validate

__all__ = ["Score", "Validation", "validate"]
