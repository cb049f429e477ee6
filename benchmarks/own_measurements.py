"""Take the verify attention that ``benchmarks/gpu/h200.py`` measured into the shipped profile of its GPU.

    python benchmarks/own_measurements.py OUT/verify.csv

copies the table to ``benchmarks/data/verify/<gpu>.csv``, where it is to be committed, and rewrites that GPU's profile in
``profiles/kernels`` with the attention fitted from it. ``benchmarks/fit_profiles.py`` does the same from the committed table:
the profile can be made again from the repository alone. Each entry's provenance names table, device, driver and day.
Tables of a test's stand-in are refused: they name no GPU, and no fit knows their operators.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from specadvisor.calibration.build_profile import fitted_profile
from specadvisor.calibration.measurements import Measurements, read_table
from specadvisor.errors import InputError, SpecadvisorError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.kernel_profile import KernelEntry, KernelProfile, read_kernel_profile, write_kernel_profile

DATA = Path(__file__).parent / "data" / "verify"
PROFILES = Path(__file__).parent.parent / "profiles" / "kernels"
SOURCE = "benchmarks/gpu/h200.py"


def measured_entries(gpu: str, data: Path = DATA) -> tuple[KernelEntry, ...]:
    """Attention entries fitted from the GPU's own table in ``data``; none where it has no table.

    Raises ``InputError`` for a table of another GPU, ``Unreliable`` where times or fit cannot be believed.
    """
    path = data / f"{gpu}.csv"
    if not path.is_file():
        return ()
    measured = _checked(path)
    if measured.head.gpu != gpu:
        raise InputError(f"{path.name}: gpu", measured.head.gpu, gpu)
    return _fitted(measured)


def _fitted(measured: Measurements) -> tuple[KernelEntry, ...]:
    gpu = measured.head.gpu
    rows = measured.rows[measured.rows["operator"] == "attention"]
    profile, notes = fitted_profile(rows, load_gpu(gpu), measured.head.conditions, f"benchmarks/data/verify/{gpu}.csv")
    for note in notes:
        print(f"  {gpu}.csv: {note}")
    return tuple(replace(e, provenance={"source": SOURCE, **e.provenance}) for e in profile.entries)


def with_measured(entries: Sequence[KernelEntry], gpu: str, data: Path = DATA) -> tuple[KernelEntry, ...]:
    """``entries`` and behind them the GPU's own, in place of those that an earlier table gave."""
    return _replaced(entries, measured_entries(gpu, data))


def _replaced(entries: Sequence[KernelEntry], own: Sequence[KernelEntry]) -> tuple[KernelEntry, ...]:
    return (*(e for e in entries if e.provenance.get("source") != SOURCE), *own)


def merge(table: Path, data: Path = DATA, profiles: Path = PROFILES) -> Path:
    """Fit the profile of the table's GPU again, then copy ``table`` into ``data``; returns the profile's path.

    A table that cannot be believed changes nothing.
    """
    measured = _checked(table)
    gpu = measured.head.gpu
    path = profiles / f"{gpu}.json"
    entries = read_kernel_profile(path).entries if path.is_file() else ()
    found = _replaced(entries, _fitted(measured))
    data.mkdir(parents=True, exist_ok=True)
    (data / f"{gpu}.csv").write_text(table.read_text(encoding="utf-8"), encoding="utf-8")
    return write_kernel_profile(KernelProfile(gpu, found, "shipped"), path)


def _checked(table: Path) -> Measurements:
    measured = read_table(table)
    if not measured.head.gpu or measured.head.conditions.get("stand_in"):
        hint = "The table that benchmarks/gpu/h200.py writes on a GPU names it in its head."
        raise InputError(f"{table.name}: gpu", measured.head.gpu or "not named", "a table measured on a GPU", hint)
    load_gpu(measured.head.gpu)
    return measured


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="verify.csv of benchmarks/gpu/h200.py")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the committed tables")
    parser.add_argument("--profiles", type=Path, default=PROFILES, help="folder of the shipped profiles")
    options = parser.parse_args(arguments)
    try:
        path = merge(options.table, options.data, options.profiles)
    except SpecadvisorError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path}: {len(read_kernel_profile(path).entries)} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
