"""``specadvisor calibrate``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specadvisor.cli import options as opt
from specadvisor.cli.calibrate_options import check_options
from specadvisor.errors import InputError, SpecadvisorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specadvisor.calibration.plan import Plan
    from specadvisor.calibration.run import Progress
    from specadvisor.hardware.kernel_profile import KernelProfile

FAILED, INTERRUPTED = 1, 130


def calibrate(
    context: typer.Context,
    gpu: Annotated[str, typer.Option("--gpu", "-g", help="auto, or the id of the GPU that is measured, or cpu.")] = "auto",
    device: Annotated[str, typer.Option(help="cuda, or cpu to measure the processor (as --gpu cpu does).")] = "cuda",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points: under 15 seconds on a datacentre GPU.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Measure this model's own weight shapes and heads.")
    ] = None,
    tp: opt.Tp = 1,
    engine: Annotated[str, typer.Option(help="Whose kernels to time where installed; default vllm, llama_cpp on a cpu.")] = "",
    only: Annotated[list[str] | None, typer.Option("--gemm", help="Only this weight format; may be repeated.")] = None,
    index: Annotated[int, typer.Option(help="Which GPU of this machine, counted as CUDA counts.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Profile file (.json) or folder instead of your own profiles.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print plan and time (or fit), write nothing; needs no GPU with --gpu ID.")
    ] = False,
    executor: Annotated[
        str | None, typer.Option(help="Dask (tcp://host:8786) or Ray (ray://host:10001) address: one run per kind of GPU.")
    ] = None,
    from_measurements: Annotated[
        Path | None, typer.Option(help="Fit this table of times (CSV or Parquet) instead of measuring; no GPU needed.")
    ] = None,
    format: opt.Format = "table",
) -> None:
    """Measure this GPU (or processor), fit its kernel profile and save it where --gpu auto finds it."""
    if executor is not None:
        from specadvisor.calibration.clusters import check_address

        check_address(executor)
    check_options(context)
    device = "cpu" if gpu.strip().lower() == "cpu" else device
    written: list[Path] = []
    try:
        if from_measurements is not None:
            return _refit(from_measurements, gpu, out, dry_run, format, written)
        options = {"quick": quick, "model": _model(model), "tp": tp, "engine": engine, "formats": only or None}
        if dry_run:
            return _show_plan(gpu, device, options, format)
        if executor is not None:
            return _fleet(executor, options, out, format, written)
        from specadvisor.calibration import calibrate as run

        with _progress(_planned_seconds(gpu, device, options)) as progress:
            done = run(gpu, device, out=out, ordinal=index, progress=progress, saved=written.append, **options)
        _show(f"Calibrated {done.profile.gpu}", done.profile, done.notes, format)
        opt.note(f"profile written to {done.path}, its measurements to {done.path.with_suffix('.csv')}")
    except KeyboardInterrupt:
        opt.note(f"specadvisor: interrupted, {_written(written)}")
        raise typer.Exit(INTERRUPTED) from None
    except InputError:
        raise
    except SpecadvisorError as error:
        opt.note(f"specadvisor: {error}")
        raise typer.Exit(FAILED) from None


def _written(paths: list[Path]) -> str:
    return f"but written, with measurements: {', '.join(map(str, paths))}" if paths else "nothing was written"


def _model(name: str | None) -> Any:
    if name is None:
        return None
    from specadvisor.model import load_model

    return load_model(name)


def _planned_seconds(gpu: str, device: str, options: dict[str, Any]) -> float:
    """For the progress bar only: a GPU that is not in the catalogue is planned like a Hopper."""
    from specadvisor.calibration import plan_for

    chosen = {key: options[key] for key in ("quick", "model", "tp", "engine", "formats")}
    try:
        return plan_for(gpu, device, **chosen).seconds
    except InputError:
        from specadvisor.calibration.plan import make_plan

        return make_plan(90, quick=bool(options["quick"])).seconds


@contextmanager
def _progress(total_s: float) -> Iterator[Progress]:
    """A bar on standard error with what is being measured and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:24s}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("starting", total=total_s)
        yield lambda done_s, what: bar.update(task, completed=done_s, description=what)


def _show_plan(gpu: str, device: str, options: dict[str, Any], format: str) -> None:
    from specadvisor.calibration import plan_for

    plan: Plan = plan_for(gpu, device, **options)
    rows = [{"section": s.name, "points": len(s.points), "seconds": round(s.seconds, 1)} for s in plan.sections]
    _emit("Plan", rows, format)
    for note in plan.left_out:
        opt.note(note)
    where = " on an idle machine" if device == "cpu" else ""
    opt.note(f"about {plan.seconds:.0f} s in all{where}; nothing was measured")


def _refit(table: Path, gpu: str, out: Path | None, dry_run: bool, format: str, written: list[Path]) -> None:
    from specadvisor.calibration.refit import refit

    done = refit(table, gpu, out, write=not dry_run, saved=written.append)
    _show(f"Fitted {done.profile.gpu}", done.profile, done.notes, format)
    opt.note(f"{sum(int(e.provenance['rows']) for e in done.profile.entries)} of {done.rows} rows used")
    opt.note(
        "nothing was written" if dry_run else f"profile written to {done.path}, its rows to {done.path.with_suffix('.csv')}"
    )


def _fleet(address: str, options: dict[str, Any], out: Path | None, format: str, written: list[Path]) -> None:
    from specadvisor.calibration.fleet import calibrate_fleet

    found = calibrate_fleet(address, options, out, opt.note, written.append)
    _emit("Fleet", [{"gpu": kind, "worker": worker, "profile": str(path)} for kind, worker, path in found], format)


def profile_rows(profile: KernelProfile) -> list[dict[str, Any]]:
    """One row per fitted entry: what was fitted, on how many rows, how well on shapes that the fit did not see."""
    from specadvisor.report.kernels import dropped_text, error_on, error_text, measured_format

    return [
        {
            "operator": e.operator,
            "format": measured_format(e),
            "engine": e.engine,
            "kernel": e.kernel,
            "rows": e.provenance.get("rows", ""),
            "left out": dropped_text(e.provenance.get("dropped", {})) or "-",
            "median error": error_text(e.median_error, e),
            "p90 error": error_text(e.p90_error, e),
            "error on": error_on(e),
        }
        for e in profile.entries
    ]


# Why rows do not count, for those who measured them.
_LEFT_OUT = {
    "read from L2": "its operands stay in the L2 cache; rotate more operand copies (column sets)",
    "faster than memory allows": "bytes / time is above the datasheet's bandwidth",
    "forced kernel choice": "column auto is 0",
}


def _note_details(profile: KernelProfile) -> None:
    """What the table's words mean, where they occur."""
    from specadvisor.report.kernels import error_on

    for why in dict.fromkeys(why for e in profile.entries for why in e.provenance.get("dropped", {})):
        opt.note(f"left out, {why}: {_LEFT_OUT[why]}")
    if not all(e.error_measured for e in profile.entries):
        opt.note("error assumed: too few rows to leave any out of the fit; measure more, of a second shape too")
    if any(error_on(e) not in ("other shapes", "assumed") for e in profile.entries):
        opt.note("an error on other sizes is that of one shape: how well it holds for another shape was not measured")


def _show(title: str, profile: KernelProfile, notes: tuple[str, ...], format: str) -> None:
    _emit(title, profile_rows(profile), format)
    for note in notes:
        opt.note(f"note: {note}")
    _note_details(profile)


def _emit(title: str, rows: list[dict[str, Any]], format: str) -> None:
    from specadvisor.cli.listing import emit_rows
    from specadvisor.report.tables import Table

    columns = tuple(rows[0]) if rows else ()
    left = tuple(c for c in columns if rows and isinstance(rows[0][c], str))
    table = Table(title, columns, tuple(tuple(str(row[c]) for c in columns) for row in rows), left)
    emit_rows(rows, lambda: [table], format, None)
