"""The engines' languages: settings are written from a plan; counters, logs and bench files are read."""

from specadvisor.engines.emit import EMITTERS, flags
from specadvisor.engines.plan import LaunchPlan

__all__ = ["EMITTERS", "LaunchPlan", "flags"]
