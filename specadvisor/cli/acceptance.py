"""``specadvisor acceptance``: priors of the catalogue, a fit of your own numbers, the rows behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.listing import emit_rows
from specadvisor.errors import InputError
from specadvisor.ids import DRAFTERS, resolve

if TYPE_CHECKING:
    from specadvisor.acceptance import AcceptanceFit
    from specadvisor.report.tables import Block

LARGEST_K = 64

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False,
    help="Fit your own acceptance; show the catalogue and its priors.",
)  # fmt: skip


Kind = Annotated[str | None, typer.Argument(help="Drafter kind; default: all.", autocompletion=opt.offer(DRAFTERS))]
Exclude = Annotated[list[str] | None, typer.Option(help="Leave out sources with this in their address.")]
Rows = Annotated[bool, typer.Option("--rows", help="The published rows behind the prior of one kind.")]
Source = Annotated[str | None, typer.Argument(help="Source id, part of its address, or a CSV file; default: list sources.")]
Measured = Annotated[
    Path | None, typer.Argument(help="specdec_bench result folder or file, or a CSV in the catalogue's columns.")
]
OfKind = Annotated[str | None, typer.Option("--drafter", "-d", help="Kind: its usual run fills what was not measured.")]
Conditional = Annotated[str | None, typer.Option(help="a_1,a_2,...: position j given that those before were accepted.")]
Cumulative = Annotated[str | None, typer.Option(help="s_1,s_2,...: the first j all accepted, as vLLM prints it.")]
Histogram = Annotated[str | None, typer.Option(help="Rounds that accepted 0,1,2,... drafts.")]
Lengths = Annotated[list[str] | None, typer.Option("--al", help="Acceptance length at k, such as 2.5@3; may be repeated.")]
Rate = Annotated[str | None, typer.Option(help="Accepted over drafted at k, such as 0.5@3.")]
Alpha = Annotated[float | None, typer.Option(help="One acceptance for every position.")]
Accepted = Annotated[str | None, typer.Option(help="Accepted tokens: a total, or one count per position.")]
Drafted = Annotated[str | None, typer.Option(help="Drafted tokens: a total (with -k or --rounds), or one count per position.")]
Rounds = Annotated[float | None, typer.Option(help="Rounds behind the numbers; fewer give a wider interval.")]
DraftTokens = Annotated[int | None, typer.Option("-k", help="Draft tokens of the measurement.")]
UpTo = Annotated[int, typer.Option("--k-max", help="Show k up to this, 1 to 64.")]
Block_ = Annotated[int | None, typer.Option("--block-size", help="Block of a block drafter, its anchor included.")]
Hit = Annotated[float | None, typer.Option(help="Lookup drafters: share of rounds with a match, if measured on those alone.")]
Depth = Annotated[int | None, typer.Option("--trained-depth", help="Draft steps the drafter was trained for.")]


@app.command()
def priors(
    kind: Kind = None,
    workload: opt.Workload = "mixed",
    temperature: opt.Temperature = 0.0,
    exclude: Exclude = None,
    rows: Rows = False,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """What each drafter kind usually accepts, with an 80% interval."""
    from specadvisor.acceptance.tables import prior_rows, rows_behind_prior

    kinds = DRAFTERS if kind is None else (resolve("drafter", kind),)
    if rows:
        if kind is None:
            raise InputError("kind", None, "a drafter kind beside --rows")
        return _emit(f"Rows behind {kinds[0]}, {workload}", rows_behind_prior(kinds[0], workload), format, output)
    found = prior_rows(kinds, workload, temperature, exclude or ())
    title = f"Acceptance length, tokens per round (80% interval): {workload}, temperature {temperature:g}"
    emit_rows(found, lambda: [_table(title, [_compact(row) for row in found])], format, output)


@app.command()
def fit(
    source: Measured = None,
    drafter: OfKind = None,
    conditional: Conditional = None,
    cumulative: Cumulative = None,
    histogram: Histogram = None,
    al: Lengths = None,
    rate: Rate = None,
    alpha: Alpha = None,
    accepted: Accepted = None,
    drafted: Drafted = None,
    rounds: Rounds = None,
    k: DraftTokens = None,
    k_max: UpTo = 8,
    block_size: Block_ = None,
    trained_depth: Depth = None,
    hit: Hit = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Survival curve and interval from whatever you measured."""
    from specadvisor.acceptance import fit_acceptance

    if not 1 <= k_max <= LARGEST_K:
        raise InputError("--k-max", k_max, f"a whole number from 1 to {LARGEST_K}")
    notes: tuple[str, ...] = ()
    if source is not None:
        from specadvisor.acceptance.files import fit_file

        stated = (conditional, cumulative, histogram, al, rate, alpha, accepted, drafted, rounds, k, block_size, hit)
        if any(value is not None for value in stated):
            raise InputError("SOURCE", str(source), "a file alone, or options with numbers, not both")
        read = fit_file(source, drafter)
        fits, notes = read.fits, read.notes
    else:
        one = fit_acceptance(
            conditional=_numbers("--conditional", conditional), cumulative=_numbers("--cumulative", cumulative),
            histogram=_numbers("--histogram", histogram), lengths=_lengths(al), alpha=alpha,
            accepted=_counts("--accepted", accepted), drafted=_counts("--drafted", drafted), rounds=rounds,
            kind=drafter, k_max=k_max, block_size=block_size, trained_depth=trained_depth,
            hit=hit, **_rate(rate, k),
        )  # fmt: skip
        fits = {"": one}
    _emit_fits(fits, notes, k_max, format, output)


@app.command()
def show(source: Source = None, format: opt.Format = "table", output: opt.Output = None) -> None:
    """Published rows of one source, and why some are left out."""
    from specadvisor.acceptance.tables import rows_of, source_rows

    if source is None:
        return _emit("Sources of published acceptance", source_rows(), format, output)
    _emit(f"Rows of {source}", rows_of(source), format, output)


# More fits than this become one line each, and so many notes are printed beside machine output.
_MANY = 20


def _emit_fits(fits: Mapping[str, AcceptanceFit], notes: Sequence[str], k_max: int, format: str, output: Path | None) -> None:
    from specadvisor.acceptance.tables import curve_rows, fit_row, length_row, model_lines

    if format == "json":
        from specadvisor.report.data import SCHEMA_VERSION, plain
        from specadvisor.report.writers import json_text

        found = [fit_row(name, one, k_max, brief=len(fits) > _MANY) for name, one in fits.items()]
        rows = [({"name": name} if name else {}) | row for fit, name in zip(found, fits, strict=True) for row in fit["curve"]]
        listed = [{key: cell for key, cell in fit.items() if key != "curve"} for fit in found]
        content = {"schema_version": SCHEMA_VERSION, "rows": rows, "fits": listed, "notes": list(notes)}
        return opt.emit(json_text(plain(content)), output)
    _notes(notes)
    if format == "csv":
        few = list(fits.items())[:_MANY]
        _notes([f"{name}: {line}" if name else line for name, one in few for line in model_lines(one)])

    def rows_of() -> list[dict[str, Any]]:
        return [({"name": name} if name else {}) | row for name, one in fits.items() for row in curve_rows(one.survival, k_max)]

    def blocks() -> list[Block]:
        from specadvisor.report.tables import Lines

        if len(fits) > _MANY:
            return [_table("Acceptance length (80% interval)", [length_row(name, one) for name, one in fits.items()])]
        found: list[Block] = []
        for name, one in fits.items():
            title = f"Acceptance {name}".strip()
            found += [_table(title, curve_rows(one.survival, k_max)), Lines("Model", tuple(model_lines(one)))]
        return found

    emit_rows(rows_of() if format == "csv" else (), blocks, format, output)


def _notes(lines: Sequence[str]) -> None:
    for line in lines[:_MANY]:
        opt.note(line)
    if len(lines) > _MANY:
        opt.note(f"and {len(lines) - _MANY} more such lines (all of them with --format json)")


# Columns that a listing on paper leaves to CSV and JSON.
_LONG = ("date", "address", "positions_kind", "notes", "how", "rate", "engine")


def _emit(title: str, rows: Sequence[Mapping[str, Any]], format: str, output: Path | None) -> None:
    long = _LONG if rows and "kind" in rows[0] else ()
    shown = [{name: cell for name, cell in row.items() if name not in long} for row in rows]
    emit_rows(rows, lambda: [_table(title, shown)], format, output)


def _compact(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of priors with each interval in one cell."""
    lengths = {
        f"k = {k}": f"{row[f'length_{k}']:.2f} ({row[f'length_{k}_low']:.2f} to {row[f'length_{k}_high']:.2f})"
        for k in (1, 3, 7)
    }
    return {"kind": row["kind"], **lengths, "rows": row["rows"], "sources": row["sources"]}


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Block:
    from specadvisor.report.tables import Table

    columns = tuple(rows[0]) if rows else ()
    left = tuple(name for name in columns if any(isinstance(row[name], str) for row in rows))
    return Table(title, columns, tuple(tuple(_cell(row[name]) for name in columns) for row in rows), left)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _numbers(field: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.replace(";", ",").split(",")]
    except ValueError:
        raise InputError(field, text, "numbers between commas") from None


def _counts(field: str, text: str | None) -> float | list[float] | None:
    values = _numbers(field, text)
    return values[0] if values is not None and len(values) == 1 else values


def _at(field: str, text: str) -> tuple[float, int]:
    value, at, k = text.partition("@")
    try:
        number, drafts = float(value), int(k)
        if not at or not math.isfinite(number):
            raise ValueError
        return number, drafts
    except ValueError:
        raise InputError(field, text, "a number and the draft tokens it was measured at, such as 2.5@3") from None


def _lengths(texts: Sequence[str] | None) -> dict[int, float] | None:
    """AL by k; raises ``InputError`` for two lengths at one k."""
    found: dict[int, float] = {}
    for text in texts or ():
        value, k = _at("--al", text)
        if found.get(k, value) != value:
            raise InputError("--al", text, f"one acceptance length for each k; {found[k]:g}@{k} was given too")
        found[k] = value
    return found or None


def _rate(text: str | None, k: int | None) -> dict[str, Any]:
    if text is None:
        return {"k": k}
    value, at = _at("--rate", text)
    if k not in (None, at):
        raise InputError("-k", k, f"{at}, as --rate says, or none")
    return {"rate": value, "k": at}
