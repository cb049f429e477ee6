"""Whether measured times may be believed: drift, noise, impossible speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.rows import Row

# A processor's rows are the faster of two rounds, so that a slow spell counts only where it is in both.
DRIFT_NOTE, DRIFT_LIMIT, CPU_DRIFT_LIMIT = 0.05, 0.25, 1.0
# Too short to tell a clock from a hiccup: its drift is only noted.
SHORT = "graph node"
NOISY_IQR = 0.03
# Shares of the datasheet's bandwidth. Faster means a cache or a broken clock was timed; less than half, another GPU or a load
# that no fit can make up for; between these and the notes' limits something is unusual.
FASTEST_SHARE, FAST_SHARE, SLOW_SHARE, SLOWEST_SHARE = 1.15, 1.05, 0.7, 0.5


def check_drift(sentinels: Sequence[Mapping[str, float]], limit: float = DRIFT_LIMIT) -> list[str]:
    """Notes on sentinel points that moved between start, middle and end; raises ``Unreliable`` past ``limit``."""
    notes = []
    for name in sentinels[0]:
        seconds = np.array([s[name] for s in sentinels if name in s])
        drift = float(seconds.max() / seconds.min() - 1.0)
        if drift > limit and name != SHORT:
            raise Unreliable(
                f"The sentinel '{name}' moved by {drift:.0%} during the run (allowed: {limit:.0%}), so the times do not belong "
                "together; nothing was written. Stop other work on this machine, let it cool down and calibrate again."
            )
        if drift > DRIFT_NOTE:
            notes.append(f"the sentinel '{name}' drifted by {drift:.0%} during the run")
    return notes


def check_bandwidth(
    rows: Sequence[Row], datasheet_bytes_per_s: float, last_level_bytes: float, part_of_gpu: bool = False
) -> list[str]:
    """Notes on the fastest read and copy far past the cache where they differ much from the datasheet.

    Raises ``Unreliable`` for a speed that no such GPU has. ``part_of_gpu``: a MIG slice, which has part of the bandwidth.
    """
    notes: list[str] = []
    for operator, what in (("bandwidth", "reads"), ("memory", "copies")):
        sized = [r for r in rows if r.operator == operator and r.kernel in ("own", "copy", "") and r.bytes]
        speeds = [r.bytes / r.us * 1e6 for r in sized if r.bytes and r.bytes > 8 * last_level_bytes]
        if not speeds or not datasheet_bytes_per_s:
            continue
        share = max(speeds) / datasheet_bytes_per_s
        seen = f"{share:.0%} of the datasheet's bandwidth ({max(speeds) / 1e9:,.0f} GB/s)"
        if share > FASTEST_SHARE:
            raise Unreliable(
                f"Memory {what} run at {seen}, which cannot be: the wrong GPU was named, or its clocks cannot be trusted. "
                "Nothing was written."
            )
        if share < SLOWEST_SHARE and not part_of_gpu:
            raise Unreliable(
                f"Memory {what} reach only {seen}: the wrong GPU was named, or another load holds its memory. Nothing was "
                "written. Name the GPU with --gpu, stop other work on it and calibrate again."
            )
        if share > FAST_SHARE:
            notes.append(f"memory {what} run at {seen}: check that the right GPU was named")
        if share < SLOW_SHARE:
            notes.append(f"memory {what} reach only {seen}: another load, MIG, or a lowered memory clock")
    return notes


def noise_notes(rows: Sequence[Row]) -> list[str]:
    """One note per operator and format with the share of points whose samples spread by more than 3%."""
    notes = []
    for key in dict.fromkeys((r.operator, r.format) for r in rows):
        spreads = [r.relative_iqr for r in rows if (r.operator, r.format) == key and r.samples]
        noisy = sum(s > NOISY_IQR for s in spreads)
        if noisy > 0.2 * len(spreads):
            notes.append(f"{' '.join(key)}: {noisy} of {len(spreads)} points are noisy (spread above {NOISY_IQR:.0%})")
    return notes
