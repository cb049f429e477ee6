"""Whether measured times may be believed: drift, noise, impossible speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specadvisor.calibration.checks import Unreliable
from specadvisor.calibration.rows import Row

DRIFT_NOTE, DRIFT_LIMIT = 0.05, 0.25
# Too short to tell a clock from a hiccup: its drift is only noted.
SHORT = "graph node"
NOISY_IQR = 0.03
# Reading faster than the datasheet means a cache or a broken clock was timed; slower than this share, another load.
FASTEST_SHARE, SLOW_SHARE = 1.15, 0.6


def check_drift(sentinels: Sequence[Mapping[str, float]]) -> list[str]:
    """Notes on sentinel points that moved between start, middle and end; raises ``Unreliable`` past 25%."""
    notes = []
    for name in sentinels[0]:
        seconds = np.array([s[name] for s in sentinels if name in s])
        drift = float(seconds.max() / seconds.min() - 1.0)
        if drift > DRIFT_LIMIT and name != SHORT:
            raise Unreliable(
                f"The sentinel '{name}' moved by {drift:.0%} during the run, so the times do not belong together; nothing was "
                "written. Stop other work on this machine, let it cool down and calibrate again."
            )
        if drift > DRIFT_NOTE:
            notes.append(f"the sentinel '{name}' drifted by {drift:.0%} during the run")
    return notes


def check_bandwidth(rows: Sequence[Row], datasheet_bytes_per_s: float, last_level_bytes: float) -> list[str]:
    """Compare the fastest read far past the cache with the datasheet; raises ``Unreliable`` where it is impossible."""
    speeds = [
        r.bytes / r.us * 1e6
        for r in rows
        if r.operator == "bandwidth" and r.format == "read" and r.bytes and r.bytes > 8 * last_level_bytes
    ]  # fmt: skip
    if not speeds or not datasheet_bytes_per_s:
        return []
    share = max(speeds) / datasheet_bytes_per_s
    if share > FASTEST_SHARE:
        raise Unreliable(
            f"Memory reads run at {share:.0%} of the datasheet's bandwidth ({max(speeds) / 1e9:,.0f} GB/s), which cannot be: "
            "the wrong GPU was named, or its clocks cannot be trusted. Nothing was written."
        )
    if share < SLOW_SHARE:
        return [
            f"memory reads reach only {share:.0%} of the datasheet's bandwidth: another load, MIG, or a lowered memory clock"
        ]
    return []


def noise_notes(rows: Sequence[Row]) -> list[str]:
    """One note per operator and format with the share of points whose samples spread by more than 3%."""
    notes = []
    for key in dict.fromkeys((r.operator, r.format) for r in rows):
        spreads = [r.relative_iqr for r in rows if (r.operator, r.format) == key and r.samples]
        noisy = sum(s > NOISY_IQR for s in spreads)
        if noisy > 0.2 * len(spreads):
            notes.append(f"{' '.join(key)}: {noisy} of {len(spreads)} points are noisy (spread above {NOISY_IQR:.0%})")
    return notes
