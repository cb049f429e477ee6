"""The engines' languages: settings are written from a plan, results of specdec_bench are read."""

from specadvisor.engines.emit import EMITTERS, emitter, flags
from specadvisor.engines.plan import LaunchPlan

__all__ = ["EMITTERS", "LaunchPlan", "emitter", "flags"]
