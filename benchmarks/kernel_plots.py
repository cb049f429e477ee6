"""One small plot per operator: predicted over measured time on unseen shapes."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from kernel_tables import GPUS, Table, first_tables

OPERATORS = {
    "gemm": ("GEMM", "m", "rows M"),
    "attention": ("decode attention", "context", "keys per sequence"),
    "mla": ("MLA decode", "heads", "query heads on the rank"),
    "moe": ("MoE", "tokens", "tokens"),
    "recurrent": ("linear attention", "query_tokens", "query tokens"),
    "all_reduce": ("all-reduce", "bytes", "message in bytes"),
    "sparse_attention": ("sparse attention", "batch", "sequences"),
}
SHORT = {"a100_sxm_80gb": "A100", "h100_sxm": "H100", "h200_sxm": "H200", "b200_sxm": "B200", "l40s": "L40S"}


def write_plots(tables: list[Table], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for operator, (title, column, label) in OPERATORS.items():
        ours = [t for t in first_tables(tables).values() if t.operator == operator]
        figure, axes = plt.subplots(figsize=(5.2, 3.0), dpi=80)
        for gpu in GPUS:
            rows = [(t.fitted.used[column].to_numpy(dtype=float), ratios(t)) for t in ours if t.gpu == gpu]
            if rows:
                x, y = (np.concatenate(side) for side in zip(*rows, strict=True))
                middle(axes, x, y, SHORT.get(gpu, "RTX PRO"))
        axes.axhspan(0.9, 1.1, color="0.9", zorder=0)
        axes.axhline(1.0, color="0.5", linewidth=0.8)
        axes.set(xscale="log", ylim=(0.5, 1.7), xlabel=label, ylabel="predicted / measured")
        axes.set_title(f"{title}: median and 10-90 % on unseen shapes", fontsize=9)
        axes.legend(fontsize=7, ncols=3, frameon=False)
        figure.tight_layout()
        figure.savefig(folder / f"accuracy_{operator}.png", metadata={"Software": None})
        plt.close(figure)


def ratios(table: Table) -> np.ndarray:
    return table.fitted.predictions / (table.fitted.used["us"].to_numpy(dtype=float) * 1e-6)


def middle(axes: plt.Axes, x: np.ndarray, y: np.ndarray, label: str) -> None:
    """Median and 10th to 90th percentile over about a dozen steps of x."""
    keep = ~np.isnan(y)
    x, y = x[keep], y[keep]
    if not x.size:
        return
    values = np.unique(x)
    edges = values if len(values) <= 16 else np.unique(np.geomspace(values[0], values[-1], 14))
    step = np.searchsorted(edges, x, side="right")
    groups = [(np.median(x[step == s]), y[step == s]) for s in np.unique(step)]
    centre = [c for c, _ in groups]
    line = axes.plot(centre, [np.median(g) for _, g in groups], marker=".", label=label)[0]
    low, high = ([np.quantile(g, q) for _, g in groups] for q in (0.1, 0.9))
    axes.fill_between(centre, low, high, alpha=0.12, color=line.get_color())
