"""GPUs: datasheet facts, the local GPU, and the kernel parameters fitted for each."""

from specadvisor.hardware.catalogue import datasheet, list_gpus, load_gpu, match_local
from specadvisor.hardware.gpu import Gpu
from specadvisor.hardware.power import power_clock_scale

__all__ = ["Gpu", "datasheet", "list_gpus", "load_gpu", "match_local", "power_clock_scale"]
