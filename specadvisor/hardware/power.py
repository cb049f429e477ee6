"""How a power limit or a lower clock slows the tensor cores. Modelled, not measured on your card: calibrate if you can.

Memory bandwidth is left alone. On an RTX 3090 at about 1710 MHz the elasticity of a speculative round to the SM clock is
0.74-0.83 and to the memory clock 0.13-0.18, while plain decode answers to them with 0.23-0.30 and 0.79-0.81: a power limit
takes away compute, so it takes away the gain of speculation first (one report: 1.64 times at 300 W, 0.97 times at 150 W).
"""

from __future__ import annotations

from specadvisor.checks import positive
from specadvisor.errors import InputError
from specadvisor.hardware.gpu import Gpu

STATIC_SHARE = 0.3
EXPONENT = 0.5
LOWEST_SHARE = 0.35
# Boards let the limit be raised by up to a third (RTX 4090: 450 to 600 W).
HIGHEST_SHARE = 1.5


def power_clock_scale(power_limit_w: float, tdp_w: float) -> float:
    """Share of the rated compute left under ``power_limit_w``: ``((p - s) / (1 - s))^e`` with p = limit / default limit.

    s = 0.3 is the share that does not follow the SM clock (memory, leakage, fans). Dynamic power is between f (voltage at its
    floor) and f^3 (voltage follows the clock), so e is between 1 and 1/3: e = 1/2. It agrees with two public observations: an
    H100 NVL (400 W) reaches 0.61 of the bf16 GEMM rate of the H100 SXM (700 W, same 132 SMs; the law says 0.62), and the RTX
    3090 report above, which with its elasticities implies 0.39 between 300 and 150 W (the law says 0.48). Never above 1.
    """
    if not LOWEST_SHARE * tdp_w < power_limit_w <= HIGHEST_SHARE * tdp_w:
        lowest, highest = LOWEST_SHARE * tdp_w, HIGHEST_SHARE * tdp_w
        accepted = f"watts above {lowest:.0f}, at most {highest:.0f} (default limit of this GPU: {tdp_w:.0f} W)"
        raise InputError("power limit", power_limit_w, accepted, "Elsewhere, calibrate on the card.")
    share = (power_limit_w / tdp_w - STATIC_SHARE) / (1.0 - STATIC_SHARE)
    return min(1.0, share) ** EXPONENT


def clock_scale(gpu: Gpu, power_limit_w: float | None, clock_hz: float | None) -> float:
    """The smaller of what the power limit (W) and a locked SM clock (Hz) leave of the rated compute."""
    scale = 1.0
    if power_limit_w is not None:
        scale = power_clock_scale(positive("power limit", power_limit_w), gpu.tdp_w)
    if clock_hz is not None:
        if not 1e8 <= clock_hz <= 5e9:
            raise InputError("SM clock", clock_hz, "Hz between 1e8 and 5e9", f"This GPU boosts to {gpu.boost_hz:.3g} Hz.")
        scale = min(scale, clock_hz / gpu.boost_hz)
    return scale
