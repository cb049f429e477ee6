"""Measures the kernels of this machine and fits a kernel profile.

``calibrate`` needs an NVIDIA GPU (or measures the processor); ``fit_profile`` fits a profile to any table of times.
"""

from specadvisor.calibration.entry import Calibration, calibrate, plan_for

__all__ = ["Calibration", "calibrate", "plan_for"]
