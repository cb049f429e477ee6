"""The fitted kernel parameters of one GPU: how sure they are, what they are, where they are from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specadvisor.hardware.kernel_entry import OPERATORS, KernelEntry
from specadvisor.report.blocks import Block, Lines, Table

if TYPE_CHECKING:
    from specadvisor.hardware import Gpu

# Provenance that says where the numbers are from, in this order; a shipped entry has ``source`` alone.
_WHERE = ("source", "table", "device", "driver", "cublas", "blas")


def kernel_rows(gpu: Gpu) -> list[dict[str, Any]]:
    """Every entry that advice on ``gpu`` can use, with its provenance; ``source`` is user, shipped or family."""
    return [
        {
            "operator": e.operator, "format": e.format, "engine": e.engine, "kernel": e.kernel, "state": e.state,
            "source": e.origin, "parameters": dict(e.parameters),
            "error": {"median": e.median_error, "p90": e.p90_error, "measured": e.error_measured},
            "provenance": dict(e.provenance),
        }
        for e in _entries(gpu)
    ]  # fmt: skip


def kernel_blocks(gpu: Gpu) -> list[Block]:
    """Errors as a table, parameters and sources as lines."""
    entries = _entries(gpu)
    rows = tuple(
        (
            e.operator, measured_format(e), e.engine, e.state, e.origin, f"{e.provenance.get('rows', '-')}",
            error_text(e.median_error, e), error_text(e.p90_error, e),
        )
        for e in entries
    )  # fmt: skip
    columns = ("operator", "format", "engine", "state", "source", "rows", "median error", "p90")
    sources: dict[str, int] = {}
    for entry in entries:
        text = f"{entry.origin}: {_where(entry)}"
        sources[text] = sources.get(text, 0) + 1
    return [
        Table("Kernel times; errors on shapes that the fit did not see", columns, rows, columns[:5]),
        Lines("Kernel parameters (docs/kernel-profiles.md explains each; those at their default are left out)",
              tuple(_parameters(e) for e in entries)),
        Lines("Sources", tuple(f"{text} ({count})" for text, count in sources.items())),
    ]  # fmt: skip


def error_text(error: float, entry: KernelEntry) -> str:
    """``4.7%``, or ``10.0% assumed`` where one shape gave nothing to test on."""
    return f"{error:.1%}" + ("" if entry.error_measured else " assumed")


def error_on(entry: KernelEntry) -> str:
    """What the error was measured on: other shapes than those of the fit, or, of one shape, other sizes (``other m``)."""
    if not entry.error_measured:
        return "assumed"
    sizes, _, rest = str(entry.provenance.get("error_on", "")).partition(" left out of the fit")
    return f"other {sizes}" if rest else "other shapes"


def measured_format(entry: KernelEntry) -> str:
    """The format of the law, with the one that was measured where no law has it (fp32 on a processor)."""
    measured = entry.provenance.get("measured_format")
    return f"{entry.format} (measured in {measured})" if measured else entry.format


def dropped_text(dropped: Mapping[str, int]) -> str:
    """``176 read from L2, 3 forced kernel choice``; empty where nothing was."""
    return ", ".join(f"{count} {why}" for why, count in dropped.items())


def _entries(gpu: Gpu) -> list[KernelEntry]:
    """Grouped by operator; within one, in the order in which they are looked up."""
    found = gpu.kernels.in_use() if gpu.kernels else ()
    return sorted(found, key=lambda e: list(OPERATORS).index(e.operator))


def _parameters(entry: KernelEntry) -> str:
    bounds, about = OPERATORS[entry.operator], entry.provenance
    values = ", ".join(
        f"{name} {value * 1e6:.3g} us" if name.endswith("_s") else f"{name} {value:.3g}"
        for name, value in entry.parameters.items()
        if value != bounds[name].default
    )
    facts = [
        entry.kernel,
        about.get("engine_version", ""),
        f"fitted {about['fitted']}" if "fitted" in about else "",
        f"mean of {about['mean_of']}" if "mean_of" in about else "",
        f"assumed: {about['assumed']}" if "assumed" in about else "",
        f"left out: {dropped_text(about['dropped'])}" if about.get("dropped") else "",
        *about.get("warnings", ()),
    ]
    noted = "; ".join(str(fact) for fact in facts if fact)
    return f"{entry.operator} {entry.format}, {entry.engine}{f' ({noted})' if noted else ''}: {values}"


def _where(entry: KernelEntry) -> str:
    about = entry.provenance
    parts = [str(about["source"])] if "source" in about else []
    parts += [f"{name} {about[name]}" for name in _WHERE[1:] if about.get(name)]
    if day := about.get("measured_on") or about.get("data"):
        parts.append(f"of {day}")
    return ", ".join(parts) or "defaults of the family (profiles/kernels/families.json)"
