"""The models that ship with specadvisor."""

from __future__ import annotations

from dataclasses import dataclass

from specadvisor.model.loading import load_model
from specadvisor.model.sources import shipped_configs


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """One row of ``specadvisor models``. Parameters in counts, sizes in bytes."""

    name: str
    model_type: str
    total_parameters: int
    active_parameters: int
    weight_format: str
    weight_bytes: float
    kv_bytes_per_token: float
    mtp_modules: int


def list_models() -> list[ShippedModel]:
    """Every shipped model with its sizes, by name."""
    return [described(name) for name in shipped_configs()]


def described(name: str) -> ShippedModel:
    """The row of one shipped model."""
    model = load_model(name)
    return ShippedModel(
        name,
        model.model_type,
        model.total_parameters,
        model.active_parameters,
        model.weight_format,
        model.weight_bytes,
        model.kv_bytes_per_token,
        model.mtp.modules if model.mtp else 0,
    )
