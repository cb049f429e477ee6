"""The engines' languages: settings are written from a plan, results of specdec_bench are read."""

from specadvisor.engines.emit import emitter, flags
from specadvisor.engines.plan import LaunchPlan
from specadvisor.ids import EMITTERS

__all__ = ["EMITTERS", "LaunchPlan", "emitter", "flags"]
