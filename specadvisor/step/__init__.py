"""Seconds and bytes of one forward pass of a deployment."""

from specadvisor.step.deployment import Deployment
from specadvisor.step.head import head_time, sampling_time
from specadvisor.step.host import exposed_host_s, launch_bound_s
from specadvisor.step.layers import layers_time, linear_time
from specadvisor.step.memory import Memory, admitted, check_fits, deployed_weights, resident
from specadvisor.step.prefill import prefill_s
from specadvisor.step.target import padded_rows, target_step
from specadvisor.step.time import COMPONENTS, StepTime

__all__ = [
    "COMPONENTS", "Deployment", "Memory", "StepTime", "admitted", "check_fits", "deployed_weights", "exposed_host_s",
    "head_time", "launch_bound_s", "layers_time", "linear_time", "padded_rows", "prefill_s", "resident", "sampling_time",
    "target_step",
]  # fmt: skip
