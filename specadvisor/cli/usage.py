"""Usage errors of the command line as one sentence: option, value, what is accepted, what to do next."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import typer

from specadvisor.errors import nearest

# Click's exceptions: newer releases of Typer raise those of their own copy of Click.
click: Any = import_module(typer.BadParameter.__module__)

KINDS = {"integer": "a whole number", "int": "a whole number", "float": "a number", "boolean": "true or false"}


def usage_error(error: Any) -> str:
    """What Click found wrong, in the form of an ``InputError``."""
    context = getattr(error, "ctx", None)
    help_hint = f"See {context.command_path} --help." if context else "See specadvisor --help."
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{_name(error.param)}: missing; accepted: {_accepted(error.param)}. {help_hint}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_name(error.param)}: {_value(error.message, error.param)} {help_hint}"
    if isinstance(error, click.NoSuchOption):
        near = nearest(error.option_name, _options(context.command.params if context else []))
        return f"{error.option_name}: there is no such option. {near or ''} {help_hint}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name}: nothing follows it; accepted: a value after the option. {help_hint}"
    end = "" if error.message[-1:] in ".?" else "."
    return f"{error.message}{end} {help_hint}"


def _value(message: str, parameter: Any) -> str:
    """ "'two' cannot be used; accepted: a whole number." of Click's "'two' is not a valid integer."."""
    if found := re.search(r"(?:Invalid value.*?: )?(?P<value>'.*') is not a valid (?P<kind>\w+)", message):
        kind = KINDS.get(found["kind"], f"a valid {found['kind']}")
        return f"{found['value']} cannot be used; accepted: {kind} ({_accepted(parameter)})."
    return f"{message.rstrip('.')}; accepted: {_accepted(parameter)}."


def _name(parameter: Any) -> str:
    """The longest spelling of an option, the name of an argument."""
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else str(parameter.name)


def _accepted(parameter: Any) -> str:
    return str(getattr(parameter, "help", "") or "a value").rstrip(" .")


def _options(parameters: list[Any]) -> list[str]:
    return [name for parameter in parameters for name in parameter.opts if parameter.param_type_name == "option"]
