"""``specadvisor gpus``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.listing import emit_rows


def gpus(
    name: Annotated[
        str | None, typer.Argument(help="Id, alias, marketing name, file, or local for this machine's; default: list all.")
    ] = None,
    power_limit: opt.PowerLimit = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """GPUs that are known, or the datasheet facts of one."""
    from specadvisor.hardware import datasheet, list_gpus, load_gpu
    from specadvisor.report.catalogue import details, gpu_list, gpu_row

    if name is None:
        found = [datasheet(gpu_id) for gpu_id in list_gpus()]
        return emit_rows([gpu_row(gpu) for gpu in found], lambda: gpu_list(found), format, output)
    local = name.lower() in ("local", "auto")
    gpu = load_gpu("auto" if local else name, power_limit_w=power_limit)
    if local:
        from specadvisor.calibration.freshness import outdated_note

        if note := outdated_note(gpu.id):
            opt.note(f"note: {note}")
    row = gpu_row(gpu) | {"clock_scale": gpu.clock_scale}
    emit_rows([row], lambda: details(gpu.name, row), format, output)
