"""Which drafter and how many draft tokens: advice on speculative decoding, before any GPU hour is spent.

Names are imported when they are first used, so that ``import specadvisor`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from specadvisor import kernels as kernels
    from specadvisor.acceptance import Survival as Survival
    from specadvisor.acceptance import fit_acceptance as fit_acceptance
    from specadvisor.advise.advisor import Advisor as Advisor
    from specadvisor.advise.anchor import Anchor as Anchor
    from specadvisor.advise.recommendation import Recommendation as Recommendation
    from specadvisor.advise.tuner import Tuner as Tuner
    from specadvisor.calibration import calibrate as calibrate
    from specadvisor.errors import DoesNotFit as DoesNotFit
    from specadvisor.errors import InputError as InputError
    from specadvisor.errors import SpecadvisorError as SpecadvisorError
    from specadvisor.hardware import load_gpu as load_gpu
    from specadvisor.model import load_model as load_model
    from specadvisor.ranges import Range as Range
    from specadvisor.validation.validate import validate as validate

# Public name: (module, attribute); an empty attribute is the module itself.
_PUBLIC = {
    "Advisor": ("specadvisor.advise.advisor", "Advisor"),
    "Anchor": ("specadvisor.advise.anchor", "Anchor"),
    "DoesNotFit": ("specadvisor.errors", "DoesNotFit"),
    "InputError": ("specadvisor.errors", "InputError"),
    "Range": ("specadvisor.ranges", "Range"),
    "Recommendation": ("specadvisor.advise.recommendation", "Recommendation"),
    "SpecadvisorError": ("specadvisor.errors", "SpecadvisorError"),
    "Survival": ("specadvisor.acceptance", "Survival"),
    "Tuner": ("specadvisor.advise.tuner", "Tuner"),
    "calibrate": ("specadvisor.calibration", "calibrate"),
    "fit_acceptance": ("specadvisor.acceptance", "fit_acceptance"),
    "kernels": ("specadvisor.kernels", ""),
    "load_gpu": ("specadvisor.hardware", "load_gpu"),
    "load_model": ("specadvisor.model", "load_model"),
    "validate": ("specadvisor.validation", "validate"),
}

__all__ = [*sorted(_PUBLIC), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'specadvisor' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    value = import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
