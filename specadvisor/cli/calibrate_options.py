"""Options of ``calibrate`` that do not go together: refused by name, because one of them would be ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from specadvisor.errors import InputError

_MEASURING = ("device", "quick", "model", "tp", "engine", "only", "index")
# What an option decides alone: (option, those that it makes meaningless, what it does instead).
_ALONE = {
    "from_measurements": ((*_MEASURING, "executor"), "the table says what was measured"),
    "executor": (("device", "index"), "every worker measures its own GPU"),
}
_SPELLED = {"only": "--gemm", "from_measurements": "--from-measurements"}


def check_options(context: typer.Context) -> None:
    """Raise ``InputError`` for the first option on the command line that another one there would have ignored."""
    given = {name: value for name, value in context.params.items() if _typed(context, name)}
    for option, (ignored, why) in _ALONE.items():
        if option in given:
            _refuse(given, ignored, option, why)
    if "executor" in given and "dry_run" not in given:
        _refuse(given, ("gpu",), "executor", "every kind of GPU that the workers have is measured")
    if _is_cpu(given) and "from_measurements" not in given:
        _refuse(
            given, ("index", "only", "executor"), "device" if "device" in given else "gpu", "the processor is measured, in fp32"
        )
        gpu = str(given.get("gpu", "auto")).strip().lower()
        if gpu not in ("auto", "cpu"):
            raise InputError("--gpu", given["gpu"], "auto or cpu beside --device cpu", "It measures the processor.")
        if given.get("device") == "cuda":
            raise InputError("--device", "cuda", "cpu beside --gpu cpu", "It measures the processor.")


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _is_cpu(given: Mapping[str, Any]) -> bool:
    return given.get("device") == "cpu" or str(given.get("gpu", "")).strip().lower() == "cpu"


def _refuse(given: Mapping[str, Any], ignored: tuple[str, ...], option: str, why: str) -> None:
    for name in ignored:
        if name in given and name != option:
            value = given[name]
            shown = ", ".join(value) if isinstance(value, list | tuple) else value
            raise InputError(_spelled(name), shown, f"nothing beside {_spelled(option)}", f"{why[0].upper()}{why[1:]}.")


def _spelled(name: str) -> str:
    return _SPELLED.get(name, f"--{name}")
