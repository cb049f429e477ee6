"""Figures of a recommendation, drawn with matplotlib when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specadvisor.advise.recommendation import Curve, Recommendation
from specadvisor.errors import InputError
from specadvisor.report.operating_points import Operating, operating_points
from specadvisor.report.roofline import roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 130


def plot_all(rec: Recommendation, directory: Path) -> list[Path]:
    """Roofline, speed-up curves and heat map as PNG in ``directory``; returns the files. No drafter, no figure."""
    curve = rec.curves.get(rec.schedule.drafter)
    if curve is None:
        raise InputError("plot", rec.schedule.drafter, "a recommendation with at least one drafter that can run here")
    figures = {
        "roofline.png": roofline_figure(rec, curve),
        "speedup_by_k.png": speedup_figure(rec, curve),
        "speedup_map.png": map_figure(rec, curve),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            partial = directory / f".{name}.partial"
            figure.savefig(partial, dpi=DPI, format="png")
            partial.replace(directory / name)
    except OSError as error:
        raise InputError("plot", str(directory), "a directory that can be written", error.strerror or "") from error
    return [directory / name for name in figures]


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure without pyplot: no global state, no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def roofline_figure(rec: Recommendation, curve: Curve) -> Figure:
    """FLOP/s over FLOP per byte: datasheet roofs, and where the main operators stand as k grows."""
    figure, axes = _figure(8.0, 5.0)
    users = rec.load.concurrency[(len(rec.load.concurrency) - 1) // 2]
    points = operating_points(rec, curve, users)
    roofline(axes, rec.deployment, points)
    axes.set_title(
        f"{rec.deployment.model.name} on {rec.deployment.gpu.id}: k = 0 to {_largest(points)} at concurrency {users}"
    )
    return figure


def _largest(points: list[Operating]) -> int:
    return max(int(p.k.max()) for p in points)


def speedup_figure(rec: Recommendation, curve: Curve) -> Figure:
    """Gain over plain decoding by k, one line per load with its 80% band; dots mark the plateau, a ring the choice."""
    figure, axes = _figure(8.0, 5.0)
    ks = np.concatenate(([0.0], curve.evaluation.k.ravel()))
    loads = rec.load.concurrency
    shown = np.unique(np.linspace(0, len(loads) - 1, min(5, len(loads))).round().astype(int))
    colours = _colours(len(shown))
    for colour, column in zip(colours, shown, strict=True):
        plain = curve.gains.plain[column]
        low, mid, high = (np.concatenate(([plain], v)) for v in _column(curve, column))
        axes.fill_between(ks, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.plot(ks, mid, color=colour, label=f"concurrency {loads[column]}")
        flat = np.isin(ks, curve.choices[column].plateau)
        axes.plot(ks[flat], mid[flat], "o", color=colour, markersize=4)
        k = curve.choices[column].k
        axes.plot([k], [mid[ks == k][0]], "o", markersize=11, markerfacecolor="none", markeredgecolor=colour)
    axes.axhline(1.0, color="0.4", linewidth=1, linestyle="--")
    axes.set_xlabel("draft tokens k")
    axes.set_ylabel(f"{_gain(rec, curve)} over plain decoding")
    known = "" if curve.acceptance_known else " (acceptance: catalogue value)"
    axes.set_title(f"{curve.name}{known}\nband: 80% interval, dots: within 2% of the best, ring: chosen", fontsize=10)
    axes.legend()
    return figure


def map_figure(rec: Recommendation, curve: Curve) -> Figure:
    """Gain over (concurrency, k) with the choice at each load outlined; yellow is no gain."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patches import Rectangle

    figure, axes = _figure(8.0, 5.0)
    loads = rec.load.concurrency
    gain = np.vstack([curve.gains.plain, np.broadcast_to(curve.gain.mid, (curve.evaluation.k.size, len(loads)))])
    ks = np.concatenate(([0], curve.evaluation.k.ravel().astype(int)))
    norm = TwoSlopeNorm(1.0, min(0.99, gain.min()), max(1.01, gain.max()))
    image = axes.imshow(gain, origin="lower", aspect="auto", cmap="RdYlGn", norm=norm, interpolation="nearest")
    axes.set_xticks(range(len(loads)), [str(c) for c in loads])
    axes.set_yticks(range(len(ks)), [str(k) for k in ks])
    if gain.size <= 220:
        for (row, column), value in np.ndenumerate(gain):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7)
    for column, choice in enumerate(curve.choices):
        corner = column - 0.5, int(np.searchsorted(ks, choice.k)) - 0.5
        axes.add_patch(Rectangle(corner, 1.0, 1.0, fill=False, edgecolor="black", linewidth=2))
    axes.set_xlabel("concurrency")
    axes.set_ylabel("draft tokens k")
    axes.set_title(f"{curve.name}: {_gain(rec, curve)} over plain decoding, outlined: chosen")
    figure.colorbar(image, ax=axes)
    return figure


def _gain(rec: Recommendation, curve: Curve) -> str:
    """What the gain is of."""
    per_gpu = curve.evaluation.extra_gpus and rec.load.objective != "latency"
    return f"{rec.load.objective} per GPU" if per_gpu else rec.load.objective


def _column(curve: Curve, column: int) -> list[Any]:
    shape = np.broadcast_shapes(curve.evaluation.k.shape, curve.evaluation.concurrency.shape)
    return [np.broadcast_to(v, shape)[:, column] for v in (curve.gain.low, curve.gain.mid, curve.gain.high)]


def _colours(count: int) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.0, 0.85, count))
