"""Lists and one-item details of GPUs, models and drafting techniques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specadvisor.model.architecture import Attention
from specadvisor.report.blocks import Block, Lines, Table
from specadvisor.report.numbers import gigabytes

if TYPE_CHECKING:
    from specadvisor.drafters.facts import Facts
    from specadvisor.hardware import Gpu
    from specadvisor.model import Architecture, ShippedModel, Weights

Row = dict[str, Any]


def gpu_row(gpu: Gpu) -> Row:
    """One GPU as a flat row, units in the names."""
    return {
        "id": gpu.id, "name": gpu.name, "family": gpu.family, "sm": gpu.sm,
        "memory_bytes": gpu.memory_bytes, "memory_bytes_per_s": gpu.memory_bytes_per_s, "sm_count": gpu.sm_count,
        "l2_bytes": gpu.l2_bytes, "unified_memory": gpu.unified_memory,
        **{f"{name}_flop_per_s": value for name, value in gpu.peaks.items()},
        "link_bytes_per_s": gpu.link_bytes_per_s, "nvlink": gpu.nvlink, "pcie_bytes_per_s": gpu.pcie_bytes_per_s,
        "boost_hz": gpu.boost_hz, "tdp_w": gpu.tdp_w, "gpus_per_node": gpu.gpus_per_node, "aliases": " ".join(gpu.aliases),
        "confidence": gpu.confidence, "source": gpu.source, "note": gpu.note,
    }  # fmt: skip


def gpu_list(gpus: Sequence[Gpu]) -> list[Block]:
    """One line per GPU: dense peaks in TFLOP/s, never "with sparsity"."""

    def peak(gpu: Gpu, name: str) -> str:
        return f"{gpu.peaks[name] / 1e12:.0f}" if gpu.peaks.get(name) else "-"

    rows = tuple(
        (
            g.id, g.family, f"{g.memory_bytes / 2**30:.0f}", f"{g.memory_bytes_per_s / 1e9:,.0f}",
            *(peak(g, n) for n in ("bf16", "fp8", "int8", "fp4")), f"{g.sm_count}", f"{g.tdp_w:.0f}", g.confidence,
        )
        for g in gpus
    )  # fmt: skip
    columns = ("id", "family", "GiB", "GB/s", "bf16", "fp8", "int8", "fp4", "SMs", "W", "confidence")
    return [Table("GPUs (dense TFLOP/s)", columns, rows, ("id", "family", "confidence"))]


def details(title: str, row: Mapping[str, Any]) -> list[Block]:
    """One item, a line per field that is stated."""
    cells = tuple(in_usual_units(name, value) for name, value in row.items() if value not in ("", None))
    return [Table(title, ("field", "value"), cells, ("field", "value"))]


# Ending of a field in SI units: (ending shown instead, unit, divisor).
_USUAL_UNITS = {
    "_bytes_per_s": (" bandwidth", "GB/s", 1e9), "_flop_per_s": ("", "TFLOP/s", 1e12),
    "_bytes_per_token": (" per token", "kB", 1e3), "_bytes_per_sequence": (" per sequence", "MB", 1e6),
    "_bytes": ("", "GB", 1e9), "_hz": ("", "MHz", 1e6), "_w": ("", "W", 1.0), "_parameters": (" parameters", "B", 1e9),
}  # fmt: skip


def in_usual_units(name: str, value: Any) -> tuple[str, str]:
    """("memory", "85.5 GB") of ("memory_bytes", 8.55e10); fields without a unit as they are."""
    for ending, (label, unit, divisor) in _USUAL_UNITS.items():
        if name.endswith(ending) and isinstance(value, int | float):
            if unit == "GB" and value < divisor:
                unit, divisor = "MB", 1e6
            shown = f"{value / divisor:,.0f}" if value >= 1000 * divisor else f"{value / divisor:.4g}"
            return name.removesuffix(ending) + label, f"{shown} {unit}"
    return name, f"{value:g}" if isinstance(value, float) else str(value)


def model_list(models: Sequence[ShippedModel]) -> list[Block]:
    """One line per shipped model."""
    rows = tuple(
        (
            m.name, m.model_type, f"{m.total_parameters / 1e9:.1f}", f"{m.active_parameters / 1e9:.1f}", m.weight_format,
            gigabytes(m.weight_bytes), f"{m.kv_bytes_per_token / 1e3:.1f}", str(m.mtp_modules or "-"),
        )
        for m in models
    )  # fmt: skip
    columns = ("name", "type", "total B", "active B", "weights", "GB", "KV kB/token", "MTP")
    return [Table("Models that ship with specadvisor", columns, rows, ("name", "type", "weights"))]


def model_row(model: Architecture) -> Row:
    """One architecture as a flat row; active: used per token, input embedding excluded, output head included."""
    return {
        "name": model.name, "model_type": model.model_type, "layers": model.layer_count, "hidden": model.hidden,
        "vocab": model.vocab,
        "total_parameters": model.total_parameters, "active_parameters": model.active_parameters,
        "weight_format": model.weight_format, "weight_bytes": model.weight_bytes, "kv_format": model.kv_format,
        "kv_bytes_per_token": model.kv_bytes_per_token, "state_bytes_per_sequence": model.state_bytes_per_sequence,
        "group_size": model.group_size(),
        "max_context_tokens": model.max_context, "mtp_modules": model.mtp.modules if model.mtp else 0,
    }  # fmt: skip


def model_details(model: Architecture, weights: Sequence[Weights]) -> list[Block]:
    """Sizes, layer groups and weights of one model."""
    layers = tuple(
        (
            str(la.count), type(la.mixer).__name__ if la.mixer else "-", getattr(la.mixer, "kind", "-"),
            f"{la.mixer.group_size():g}" if isinstance(la.mixer, Attention) else "-",
            str(getattr(la.mixer, "window", 0) or "-"),
            type(la.feed_forward).__name__ if la.feed_forward else "-", f"{la.parameters / 1e6:.1f}",
            f"{la.active_parameters / 1e6:.1f}",
        )
        for la in model.layers
    )  # fmt: skip
    columns = ("count", "mixer", "kind", "G", "window", "feed-forward", "parameters M", "active M")
    parts = tuple((w.component, w.format, f"{w.parameters / 1e6:,.1f}", gigabytes(w.bytes)) for w in weights)
    blocks = details(model.name, model_row(model))
    blocks.append(Table("Layers", columns, layers, ("mixer", "kind", "feed-forward")))
    blocks.append(Table("Weights", ("component", "format", "parameters M", "GB"), parts, ("component", "format")))
    if model.warnings:
        blocks.append(Lines("Notes", model.warnings))
    return blocks


def technique_row(facts: Facts, takes: str = "", support: str = "") -> Row:
    """One drafting technique or modifier as a flat row; ``takes``: the value that a modifier is given, ``support``: engines."""
    return {
        "id": facts.id, "title": facts.title, "value": takes, "structure": facts.structure, "cost": facts.cost,
        "acceptance": facts.acceptance, "legality": facts.legality, "engines": support, "training_class": facts.training_class,
        "operating": facts.operating, "training": "; ".join(facts.training), "sources": " ".join(s.url for s in facts.sources),
    }  # fmt: skip


def technique_list(title: str, items: Sequence[Facts]) -> list[Block]:
    """One line per technique."""
    rows = tuple((f.id, f"{f.title}. Cost: {f.cost}", f.training_class, f.operating) for f in items)
    columns = ("id", "technique and cost of a round", "training", "operating")
    return [Table(title, columns, rows, columns)]
