"""What nobody has published: GQA verify attention with several query tokens on a long cache, on one H200.

    PYTHONPATH=. python benchmarks/gpu/h200.py --dry-run    # the plan and its estimated time; needs no GPU, not even installing
    python benchmarks/gpu/h200.py --out "$OUT"              # under four minutes on an H200
    python benchmarks/gpu/h200.py --out "$OUT" --small      # a corner of every section

Needs this package and its dependencies, NVRTC and cuBLASLt (both come with torch); torch itself for the comparison. Correctness
first: a kernel that does not match float64 ends the run. Then tasks in order of worth (``h200_plan``), ``verify.csv`` rewritten
after each, until ``--budget`` seconds since the start are used: the last tasks are dropped. A task that ran throttled is
measured once more; rows that stay throttled are kept, but not fitted. ``verify.json`` is the profile fitted from the rows, with
the machine's conditions, which the head of ``verify.csv`` has too; ``report.md`` has the tables, and says where the time steps
with the packed rows G x query tokens, beside the tiles that the kernel has (guidelines 2 and 3).

An interrupt (Ctrl-C, SIGTERM) ends the measuring; what was measured is fitted and written with its conditions, and further
interrupts do not stop that. Exit codes: 0; 1 a kernel failed or nothing could be measured; 2 no GPU, or arguments that cannot
be; 130 interrupted. ``benchmarks/own_measurements.py`` takes ``verify.csv`` into the shipped profile.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from h200_plan import Task, checks_s, make_tasks, plan_text, within
from h200_report import report_text
from h200_session import CHECKED, CLOSING_S, Session

from specadvisor.calibration import driver, save
from specadvisor.calibration.build_profile import build_profile
from specadvisor.calibration.identify import identify
from specadvisor.calibration.run import Run
from specadvisor.errors import InputError, MissingDependency, SpecadvisorError
from specadvisor.hardware import Gpu, load_gpu

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130


class Interrupts:
    """SIGINT and SIGTERM raise ``KeyboardInterrupt`` once, and not any more while the run is ``closing``."""

    def __init__(self) -> None:
        self.seen = self.closing = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, *_: Any) -> None:
        if not self.closing and not self.seen:
            self.seen = True
            raise KeyboardInterrupt
        self.seen = True
        print("interrupted: what was measured is being written", file=sys.stderr, flush=True)


def write(run: Run, gpu: Gpu, out: Path) -> None:
    """Rows, fitted profile and report; without a fit the rows and the report stand alone."""
    entries: list[str] = []
    try:
        profile, notes = build_profile(run, gpu)
        run.notes += notes
        save.save(run, profile, gpu, out / "verify.json")
        entries = [
            f"{e.operator} {e.format} {e.kernel}: median {e.median_error:.1%}, p90 {e.p90_error:.1%}" for e in profile.entries
        ]
    except Exception as error:  # whatever a fit stumbles over: the measurements are what cannot be had again
        run.notes.append(f"no profile: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    text = report_text(run, entries)
    save.write_together({out / "report.md": text, out / "verify.csv": save.rows_text(run, gpu)})
    print(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("h200-out"))
    parser.add_argument("--budget", type=float, default=210.0, help="seconds since the start, fit and report included")
    parser.add_argument("--gpu", default="auto", help="id in the catalogue; auto is the local GPU (an H200 for --dry-run)")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, measure nothing")
    options = parser.parse_args(arguments)
    before_s = checks_s(len(CHECKED))
    if options.dry_run:
        gpu = load_gpu("h200_sxm" if options.gpu == "auto" else options.gpu)
        tasks = make_tasks(gpu, options.small)
        _, dropped = within(tasks, options.budget - CLOSING_S - before_s)
        print(plan_text(tasks, dropped, before_s, CLOSING_S, options.budget))
        return 0
    _check_folder(options.out)
    interrupts = Interrupts()
    with driver.opened() as device:
        gpu, _ = identify(device, options.gpu)
        tasks = make_tasks(gpu, options.small)
        if not within(tasks, options.budget - CLOSING_S - before_s)[0]:
            needed = CLOSING_S + before_s + min(task.seconds for task in tasks)
            raise InputError("budget", options.budget, f"{needed:.0f} s or more", "Checks, fit and report take most of it.")
        session = Session(device, gpu, options.out, options.budget)
        session.check()
        broken = _measure(session, tasks, interrupts)
    write(session.run, gpu, options.out)
    if interrupts.seen:
        return INTERRUPTED
    if not session.run.rows:
        print("nothing was measured: the time was used up before the first task", file=sys.stderr)
    return FAILED if broken or not session.run.rows else 0


def _check_folder(out: Path) -> None:
    """Before anything is measured: ``out`` can be written and holds nothing that would be overwritten."""
    if any((out / name).exists() for name in ("verify.json", "verify.csv", "report.md")):
        raise InputError("out", str(out), "a new folder", "It holds an earlier run, which cannot be had again.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("out", str(out), "a folder that can be made", str(error)) from error


def _measure(session: Session, tasks: list[Task], interrupts: Interrupts) -> str:
    """Measure and close, whatever happens; returns what broke the device, if anything did."""
    broken = ""
    try:
        session.measure_all(tasks)
        interrupts.closing = True
    except KeyboardInterrupt:
        session.run.notes.append("interrupted: later tasks are missing")
    except driver.CudaError as error:  # after a fault inside a kernel nothing on this device works any more
        interrupts.closing = True
        broken = str(error)
        session.run.notes.append(f"stopped: {error}")
    return session.close() or broken


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SpecadvisorError as error:
        print(error, file=sys.stderr)
        sys.exit(UNUSABLE if isinstance(error, InputError | MissingDependency) else FAILED)
    except KeyboardInterrupt:
        print("interrupted before the first measurement", file=sys.stderr)
        sys.exit(INTERRUPTED)
