"""What calibration needs besides Python, and the exact step when it is missing."""

from __future__ import annotations

from specadvisor.errors import MissingDependency

EXTRA = "pip install 'specadvisor[gpu]'"
EXTRA_CUDA_12 = "pip install 'specadvisor[gpu-cu12]'"


def extra_for_driver(cuda_driver_version: int = 0) -> str:
    """The install line that matches the driver: ``cuda_driver_version`` as CUDA prints it, 12080 for 12.8, 0 if unknown."""
    if 0 < cuda_driver_version < 13000:
        return EXTRA_CUDA_12
    return EXTRA if cuda_driver_version else f"{EXTRA} (with a driver older than 580: {EXTRA_CUDA_12})"


def missing_bindings() -> MissingDependency:
    """No cuda-python."""
    return MissingDependency("cuda-python", "talking to the NVIDIA driver", "pip install 'cuda-python>=12.9,<14'")


def missing_driver(detail: str) -> MissingDependency:
    """No libcuda; ``detail`` is what the loader said."""
    return MissingDependency(
        "NVIDIA driver",
        "measuring this machine's GPU",
        f"Install the driver from https://www.nvidia.com/drivers (in a container: run it with --gpus all), "
        f"or measure the processor with --device cpu. [{detail}]",
    )


def missing_gpu(detail: str) -> MissingDependency:
    """A driver without a device; ``detail`` is what it answered."""
    return MissingDependency(
        "NVIDIA GPU",
        "measuring kernels",
        f"The driver is there but offers no device: check nvidia-smi and CUDA_VISIBLE_DEVICES, "
        f"or measure the processor with --device cpu. [{detail}]",
    )


def missing_nvrtc(cuda_driver_version: int = 0) -> MissingDependency:
    """No NVRTC."""
    return MissingDependency("NVRTC", "compiling the measurement kernels", extra_for_driver(cuda_driver_version))
