"""Published measurements beside the cost model: speed-ups over batch, round times, verification times.

    python benchmarks/anchors.py

Nothing is fitted, except one number of a source that it does not print and that all of its rows share: per drafter on the
1k rows of SPEED-Bench Table 10, which the 2k and 8k rows test, and those of ``data/anchors/unknowns.csv`` on one series, which
the other series test. Scores without any fit stand beside those on rows that no fit saw. Data, with the source of every row
and what was assumed: ``data/anchors``.

sign    speed-up on the right side of 1; measured within 3% of 1 does not count
order   which of two is larger, for every pair of one drafter's loads and of one load's drafters that differ by more than 3%
error   predicted / measured - 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from anchor_points import (
    Point,
    Table10Row,
    context_of_verification,
    read,
    score,
    settings,
    share_points,
    speedup_points,
    table10,
    verification_points,
    wrong_signs,
)
from anchor_unknowns import Unknown, unknowns

TOLERANCE = 0.15
CONTEXTS = (512, 2048, 4096)
TWO_MODELS = "1.2.1"  # the last stable TensorRT-LLM that drafts with a second model in passes of its executor


def print_series(points: Sequence[Point]) -> None:
    """Load, measured, predicted and error of one series; ms that each predicted round is short of the printed speed-up."""
    rows = [
        ("load", [f"{p.load:g}" for p in points]),
        ("measured", [f"{p.measured:.2f}" for p in points]),
        ("predicted", [f"{p.predicted:.2f}" for p in points]),
        ("error", [f"{p.error:+.0%}" for p in points]),
    ]
    if points[0].unit == "x":
        rows.append(("short ms", [f"{1e3 * p.missing_s:+.1f}" for p in points]))
    for label, cells in rows:
        print(f"    {label:<10}" + "".join(f"{cell:>8}" for cell in cells))


def print_setting(name: str, what: str) -> None:
    """What was run, where it is printed, what was assumed."""
    row = settings()[name]
    print(f"\n{name}: {what} over {row['load']}")
    print(f"  {row['target']}, {row['tp']}x {row['gpu']} ({row['gpu_origin']}), {row['engine']}")
    context = f"context {row['context']} ({row['context_origin']})" if row["context"] else "context printed"
    print(f"  {context}; {row['source']}")


def print_sweeps(points: Sequence[Point]) -> None:
    """Every setting of ``points`` with the acceptance length that each series was given, and its own score."""
    given = {(row["setting"], row["series"]): row for row in read("series.csv")}
    for name in dict.fromkeys(p.setting for p in points):
        print_setting(name, "speed-up")
        mine = [p for p in points if p.setting == name]
        for series in dict.fromkeys(p.series for p in mine):
            row = given[name, series]
            print(f"  {series}: AL {row['length']} ({row['length_origin']})")
            print_series([p for p in mine if p.series == series])
        print(f"  -> {score(mine)}")


def print_verification(points: Sequence[Point]) -> None:
    for name in dict.fromkeys(p.setting for p in points):
        print_setting(name, "ms of the verification pass at shares of batch * 16 rows,")
        mine = [p for p in points if p.setting == name]
        for series in dict.fromkeys(p.series for p in mine):
            print(f"  {series}")
            print_series([p for p in mine if p.series == series])
        print(f"  -> {score(mine)}")


def print_profile_context(name: str) -> None:
    """The verification table once more at the context that it implies."""
    slope, keys = context_of_verification(name)
    print(f"\n{name}: at equal rows a sequence adds {slope:.2f} ms; the model does so at {keys:.0f} keys (one number fitted)")
    points = [p for p in verification_points(keys) if p.setting == name]
    for series in dict.fromkeys(p.series for p in points):
        errors = "".join(f"{p.error:>+8.0%}" for p in points if p.series == series)
        print(f"    {series:<10}{errors}")
    print(f"  -> {score(points)}")


def print_table10(rows: Sequence[Table10Row]) -> None:
    print_setting("speed-bench", "step and round times")
    for row in rows[:6:2]:
        print(f"  t_ar at {row.tokens}: {row.printed['t_ar_ms']} ms measured, {1e3 * row.plain_s:.1f} ms predicted")
    print(
        "  t_sd/t_ar: measured, model; model with one number per drafter fitted at 1k: seconds a round, factor on its drafting"
    )
    within = [0, 0]
    for row in rows[::2]:
        ratios = (row.modelled_ratio, row.ratio_with_seconds, row.ratio_with_factor)
        errors = [ratio / row.ratio - 1.0 for ratio in ratios]
        within = [n + (row.tokens > 1024 and abs(e) <= TOLERANCE) for n, e in zip(within, errors[1:], strict=True)]
        cells = "".join(f"{ratio:>9.3f} ({error:+.0%})" for ratio, error in zip(ratios, errors, strict=True))
        print(f"    {row.printed['drafter']:<26}{row.tokens:>5}{row.ratio:>9.3f}{cells}")
    for row in {row.printed["drafter"]: row for row in rows}.values():
        drafting = f"drafting times {1.0 + row.missing_factor:.1f}"
        print(f"  fitted: {row.printed['drafter']} {1e3 * row.missing_s:+.1f} ms a round, or {drafting}")
    cells = [(row.modelled_ratio, row.ratio) for row in table10(TWO_MODELS)[::2] if row.printed["drafter"].startswith("draft")]
    text = ", ".join(f"{ratio:.3f} ({ratio / printed - 1.0:+.0%})" for ratio, printed in cells)
    print(f"  the second model as TensorRT-LLM {TWO_MODELS} drafts with it: {text}")
    print(f"  within 15% at 2k and 8k: {within[0]} of 4 with seconds, {within[1]} of 4 with a factor")
    print("  speed-up from the printed AL: measured, model, with the seconds, with the factor")
    for row in rows:
        ratios = (row.modelled_ratio, row.ratio_with_seconds, row.ratio_with_factor)
        cells = "".join(f"{row.point(ratio).predicted:>7.2f}" for ratio in ratios)
        print(f"    {row.point(1.0).series:<20}{row.tokens:>6}{float(row.printed['speedup']):>7.2f}{cells}")
    print(f"  -> model: {score([row.point(row.modelled_ratio) for row in rows])}")
    print(f"  -> with the seconds: {score([row.point(row.ratio_with_seconds) for row in rows])}")
    print(f"  -> with the factor: {score([row.point(row.ratio_with_factor) for row in rows])}")


def print_unknown(unknown: Unknown) -> None:
    """The series of one source once more, with the number that one of them was fitted with."""
    print(f"\n{unknown.setting}: {unknown}, fitted on {unknown.series} ({unknown.why})")
    for series in dict.fromkeys(p.series for p in unknown.tested):
        print(f"  {series}")
        print_series([p for p in unknown.tested if p.series == series])
    print(f"  -> the series that the fit did not see: {score(unknown.tested)}")


def print_contexts() -> None:
    """No sweep prints its mean context: what each score becomes at others."""
    print(f"\nthe assumed context at {', '.join(map(str, CONTEXTS))} keys: orders and median |error|")
    for what, points_at in (("speed-up", speedup_points), ("verification", verification_points)):
        by_context = [points_at(context) for context in CONTEXTS]
        for name in dict.fromkeys(p.setting for p in by_context[0]):
            scores = [score([p for p in points if p.setting == name]) for points in by_context]
            cells = "".join(f"{s.orders[0]:>7}/{s.orders[1]}{np.median(s.errors):>7.1%}" for s in scores)
            print(f"  {name:<22}{what:<14}{cells}")


def main() -> None:
    rows = table10()
    print_table10(rows)
    sweeps, verified = speedup_points(), verification_points()
    print_sweeps(sweeps)
    print_verification(verified)
    print_profile_context("dcut-qwen3-8b")
    print("\nd-cut modifier: tokens a round at shares of the rows, from the uncut lengths, beside the printed ones")
    print_series(share_points())
    fitted = unknowns()
    for unknown in fitted:
        print_unknown(unknown)
    print_contexts()
    speedups = [*(row.point(row.modelled_ratio) for row in rows), *sweeps]
    unseen = [row.point(row.ratio_with_factor) for row in rows if row.tokens > 1024]
    unseen += [p for p in sweeps if p.setting not in {u.setting for u in fitted}]
    unseen += [p for u in fitted for p in u.tested]
    for what, points in (("nothing fitted", speedups), ("rows that no fit saw, where a source's number is fitted", unseen)):
        print(f"\nspeed-ups, {what}: {score(points)}")
        wrong = wrong_signs(points)
        print("  on the wrong side of 1:" + ("" if wrong else " none"))
        for p in wrong:
            print(f"    {p.setting} {p.series} at {p.load:g}: measured {p.measured:.2f}, predicted {p.predicted:.2f}")
    print(f"\nverification: {score(verified)}")
    print(f"all, nothing fitted: {score([*speedups, *verified])}")


if __name__ == "__main__":
    main()
