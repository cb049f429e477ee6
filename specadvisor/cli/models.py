"""``specadvisor models``."""

from __future__ import annotations

from typing import Annotated

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.listing import emit_rows


def models(
    name: Annotated[str | None, typer.Argument(help="Built-in name, config.json, directory, GGUF or hf:org/name.")] = None,
    weights: opt.Weights = None,
    kv: opt.Kv = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Models that ship with specadvisor, or what one is made of."""
    from specadvisor.model import list_models, load_model, weight_table
    from specadvisor.report.catalogue import model_details, model_list, model_row
    from specadvisor.report.data import plain

    if name is None:
        shipped = list_models()
        return emit_rows([plain(m) for m in shipped], lambda: model_list(shipped), format, output)
    model = load_model(name, weights=weights, kv=kv)
    emit_rows([model_row(model)], lambda: model_details(model, weight_table(model)), format, output)
