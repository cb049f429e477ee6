"""``specadvisor gpus``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.listing import emit_rows


def gpus(
    name: Annotated[
        str | None, typer.Argument(help="Id, alias, marketing name, file, local for this machine's, or cpu; default: list all.")
    ] = None,
    power_limit: opt.PowerLimit = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """GPUs that are known, or the datasheet and the fitted kernel parameters of one."""
    from specadvisor.hardware import datasheet, list_gpus, load_gpu
    from specadvisor.report.catalogue import details, gpu_list, gpu_row
    from specadvisor.report.kernels import kernel_blocks, kernel_rows

    if name is None:
        found = [datasheet(gpu_id) for gpu_id in list_gpus()]
        return emit_rows([gpu_row(gpu) for gpu in found], lambda: gpu_list(found), format, output)
    gpu = load_gpu("auto" if name.lower() == "local" else name, power_limit_w=power_limit)
    opt.note_outdated(gpu)
    row = gpu_row(gpu) | {"clock_scale": gpu.clock_scale}
    if format == "json":
        row["kernels"] = kernel_rows(gpu)
    emit_rows([row], lambda: [*details(gpu.name, row), *kernel_blocks(gpu)], format, output)
