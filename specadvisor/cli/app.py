"""The ``specadvisor`` command: a table of commands, each loaded when it runs."""

from __future__ import annotations

import atexit
import gc
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from specadvisor import __version__
from specadvisor.cli.usage import click, usage_error
from specadvisor.errors import DoesNotFit, InputError, nearest

INTERRUPTED = 130
# Command: one line of help. Its code is the function (or the Typer app called ``app``) in ``specadvisor.cli.<command>``.
COMMANDS = {
    "recommend": "Which drafter, how many draft tokens, at which load.",
    "explain": "Trace one point: times, guidelines, formulas, sources.",
    "sweep": "The whole grid as tidy CSV, one row per point.",
    "flags": "Settings to paste into your engine for a recommendation.",
    "gpus": "GPUs that are known, or datasheet and kernels of one.",
    "models": "Models that ship with specadvisor, or what one is made of.",
    "drafters": "Drafting techniques, or the facts of one.",
    "acceptance": "Fit your own acceptance; show the catalogue and its priors.",
    "validate": "Predict measured sweeps and score the predictions.",
    "calibrate": "Measure this GPU and write its kernel profile.",
}


class LazyCommand(TyperCommand):
    """A name and a help line until it is run; then the real command takes over."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return load(str(self.name)).make_context(info_name, args, parent, **extra)


class LazyGroup(TyperGroup):
    """Lists the commands without importing any of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return LazyCommand(cmd_name, help=COMMANDS[cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS:
            raise InputError("command", args[0], ", ".join(COMMANDS), nearest(args[0], COMMANDS))
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """The real command ``name``."""
    module = import_module(f"specadvisor.cli.{name}")
    if hasattr(module, "app"):
        return get_command(module.app)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(getattr(module, name))
    return get_command(single)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"specadvisor {__version__}")
        raise typer.Exit


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(help="Advice on speculative decoding: which drafter, how many draft tokens, on this model, GPU and load.")
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main(arguments: list[str] | None = None) -> None:
    """Run; exit 0 done, 1 the honest answer is "does not fit", 2 usage or input error."""
    # Start-up makes many objects and no garbage: looking for it, on the way and once more at exit, costs a tenth of a command.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    try:
        sys.exit(app(args=arguments, prog_name="specadvisor", standalone_mode=False))
    except click.NoArgsIsHelpError as error:
        typer.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        sys.exit(_fail(usage_error(error), 2))
    except InputError as error:
        sys.exit(_fail(str(error), 2))
    except DoesNotFit as answer:
        sys.exit(_fail(f"does not fit: {answer}", 1))
    except typer.Abort:
        sys.exit(_fail("interrupted", INTERRUPTED))


def _fail(text: str, code: int) -> int:
    typer.echo(f"specadvisor: {' '.join(text.split())}", err=True)
    return code
