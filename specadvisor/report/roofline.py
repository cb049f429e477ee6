"""The roofline itself: datasheet roofs on logarithmic axes, operators as paths along k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from specadvisor.formats import weight_format
from specadvisor.report.operating_points import Operating
from specadvisor.step import Deployment

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def roofline(axes: Axes, deployment: Deployment, points: Sequence[Operating]) -> None:
    """Draw the roofs of the weight format and of 16 bit, and each operator from k = 0 (hollow) upwards."""
    gpu = deployment.gpu
    lowest = min(float(p.intensity.min()) for p in points)
    highest = max(float(p.intensity.max()) for p in points)
    x = np.geomspace(min(0.5, lowest / 2), max(4e3, highest * 2), 200)
    compute = weight_format(deployment.model.weight_format).compute
    for name in dict.fromkeys((compute, "bf16")):
        peak = gpu.peak(name)
        axes.plot(x, np.minimum(peak, x * gpu.memory_bytes_per_s) / 1e12, label=f"roof, {name} peak {peak / 1e12:.0f} TFLOP/s")
    for number, point in enumerate(points):
        colour = f"C{number + 3}"
        rate = point.flop_per_s / 1e12
        axes.plot(point.intensity, rate, "-", color=colour, linewidth=1)
        axes.plot(point.intensity[1:], rate[1:], "o", color=colour, markersize=4, label=f"{point.operator}, k >= 1")
        axes.plot(point.intensity[:1], rate[:1], "o", color=colour, markerfacecolor="white", markersize=7)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per byte")
    axes.set_ylabel("TFLOP/s of one GPU (hollow: k = 0)")
    axes.legend(fontsize=8)
