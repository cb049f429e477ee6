"""The printed numbers of ``data/anchors`` and what the cost model makes of them; ``anchors.py`` prints both.

The sources ran the loads that they print, so the limits of memory and of the engine's admission are lifted.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from specadvisor.acceptance import Survival, from_length, from_lengths, prior
from specadvisor.advise.evaluate import Evaluation, baseline, evaluate
from specadvisor.drafters import Drafter, load_drafter
from specadvisor.drafters.modifiers import parse_modifier
from specadvisor.drafters.modifiers.adaptive import length_at_budget
from specadvisor.hardware import load_gpu
from specadvisor.model import load_model
from specadvisor.ranges import FloatArray
from specadvisor.serving import load_engine
from specadvisor.step import Deployment, target_step

DATA = Path(__file__).parent / "data" / "anchors"
MARGIN = 0.03
BLOCK = 16
Row = dict[str, str]


@dataclass(frozen=True)
class Point:
    """One printed number and its prediction; ``unit`` x: a speed-up, which has a sign. ``round_s``: the predicted round."""

    setting: str
    series: str
    load: float
    measured: float
    predicted: float
    unit: str = "x"
    round_s: float = float("nan")

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1.0

    @property
    def has_sign(self) -> bool:
        return self.unit == "x" and abs(self.measured - 1.0) > MARGIN

    @property
    def missing_s(self) -> float:
        """Seconds that the round would have to be longer to give the printed speed-up (acceptance and plain step kept)."""
        return self.round_s * self.error


@dataclass(frozen=True)
class Score:
    """``signs`` and ``orders`` are (right, counted); ``errors`` the absolute relative ones."""

    signs: tuple[int, int]
    orders: tuple[int, int]
    errors: FloatArray

    def __str__(self) -> str:
        signs = f"{self.signs[0]} of {self.signs[1]} signs, " if self.signs[1] else ""
        return f"{signs}{self.orders[0]} of {self.orders[1]} orders, median |error| {np.median(self.errors):.1%}"


def read(name: str) -> list[Row]:
    """Rows of one data file; lines that start with # explain it."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def settings() -> dict[str, Row]:
    return {row["setting"]: row for row in read("settings.csv")}


@cache
def deployment(setting: str, overlap: bool, version: str = "") -> Deployment:
    """What the source ran, with room for every load that it prints; no source prints the engine's ``version``."""
    row = settings()[setting]
    gpu = replace(load_gpu(row["gpu"]), memory_bytes=1e13)
    serving = replace(load_engine(row["engine"], version or None), admission=({"requests": 4096},))
    return Deployment(load_model(row["target"]), gpu, serving, tp=int(row["tp"]), async_scheduling=overlap)


def acceptance(text: str, kind: str, k_max: int, source: str) -> Survival:
    """``k:AL`` pairs, or ``prior:<workload>`` without the rows of the source that is predicted."""
    if text.startswith("prior:"):
        return prior(kind, text.removeprefix("prior:"), k_max=k_max, exclude_sources=(source.split("//")[-1].split()[0],))
    lengths = {int(k): float(al) for k, al in (pair.split(":") for pair in text.split(";"))}
    if len(lengths) == 1:
        ((k, length),) = lengths.items()
        return from_length(length, k, kind=kind, k_max=max(k, k_max))
    return from_lengths(lengths, kind=kind, k_max=k_max)


def context_of(setting: str) -> float:
    """Mean keys per sequence that a setting is evaluated at (printed or assumed: ``context_origin``)."""
    return float(settings()[setting]["context"])


def evaluated(
    row: Row, k: Any, load: Any, context: Any, curve: Survival, modifiers: Sequence[str] = (), version: str = ""
) -> Evaluation:
    """One drafter of a setting against plain decoding as that setting runs it."""
    setting = settings()[row["setting"]]
    plain = baseline(deployment(setting["setting"], setting["overlap"] == "yes", version), load, context)
    speculating = deployment(setting["setting"], row["overlap"] == "yes", version)
    drafter = _drafter(setting["setting"], row["drafter"], row.get("tree", ""), tuple(modifiers))
    return evaluate(speculating, drafter, curve, k, load, context, plain=plain)


@cache
def _drafter(setting: str, drafter: str, tree: str, modifiers: tuple[str, ...]) -> Drafter:
    run = deployment(setting, True)
    return load_drafter(drafter, run.model, run.serving.id, tree=tree).with_modifiers(map(parse_modifier, modifiers))


def speedup_points(context: float | None = None, only: str = "") -> list[Point]:
    """Sweeps over batch, concurrency or draft length (of one setting); ``context`` replaces the settings' own."""
    measured: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in read("speedups.csv"):
        measured[row["setting"], row["series"]].append((float(row["load"]), float(row["speedup"])))
    points: list[Point] = []
    for row in read("series.csv"):
        name = (row["setting"], row["series"])
        if only not in ("", row["setting"]):
            continue
        loads, values = map(np.array, zip(*measured[name], strict=True))
        cells = zip(loads, values, *_speedups(row, loads, context), strict=True)
        points += [Point(*name, *cell[:3], round_s=cell[3]) for cell in cells]
    return points


def _speedups(row: Row, loads: FloatArray, context: float | None) -> tuple[FloatArray, FloatArray]:
    """Predicted speed-ups and rounds of one series."""
    setting = settings()[row["setting"]]
    context = context or context_of(row["setting"])
    over_k = row["k"] == "load"
    k, batch = (loads, np.ones_like(loads)) if over_k else (np.full_like(loads, float(row["k"])), loads)
    curve = acceptance(row["length"], row["drafter"], int(k.max()), setting["source"])
    if row["series"] == "D-Cut-16" and row["length_origin"].startswith("printed"):
        return _best_share(row, evaluated(row, k, batch, context, curve), context)
    cut = ("d-cut",) if row["series"].startswith("D-Cut") else ()
    result = evaluated(row, k, batch, context, curve, cut)
    return result.equal_batch_speedup, result.round_s


def _best_share(row: Row, full: Evaluation, context: float) -> tuple[FloatArray, FloatArray]:
    """The share of the block's rows that gives the most tokens a second, with the lengths that the source prints."""
    run = deployment(row["setting"], row["overlap"] == "yes")

    def verify(share: float) -> FloatArray:
        return target_step(run, full.batch, share * BLOCK, context, host=False).total_s

    rest = full.round_s - verify(1.0)
    lengths = np.array([[float(s["acceptance_length"])] for s in read("shares.csv")])
    rounds = np.array([rest + verify(float(s["share"])) for s in read("shares.csv")])
    best = np.argmax(lengths / rounds, axis=0)[None]
    round_s = np.take_along_axis(rounds, best, axis=0)[0]
    return lengths[best[0], 0] * full.baseline.total_s / round_s, round_s


@dataclass(frozen=True)
class Table10Row:
    """One row of SPEED-Bench Table 10 and its evaluation with the printed AL. ``missing_s``: seconds a round that the 1k row

    of this drafter needs beyond the model; ``missing_factor``: what the drafting time would have to grow by instead.
    """

    printed: Row
    result: Evaluation
    missing_s: float
    missing_factor: float

    @property
    def tokens(self) -> int:
        return int(self.printed["input_tokens"])

    @property
    def ratio(self) -> float:
        """t_sd / t_ar as printed."""
        return float(self.printed["t_sd_ms"]) / float(self.printed["t_ar_ms"])

    @property
    def modelled_ratio(self) -> float:
        return float(self.result.round_s) / self.plain_s

    @property
    def ratio_with_seconds(self) -> float:
        """The model with the same seconds more in every round."""
        return (float(self.result.round_s) + self.missing_s) / self.plain_s

    @property
    def ratio_with_factor(self) -> float:
        """The model with the drafting time of every round longer by the same factor."""
        return (float(self.result.round_s) + self.missing_factor * float(self.result.draft_s)) / self.plain_s

    @property
    def plain_s(self) -> float:
        return float(self.result.baseline.total_s)

    def point(self, ratio: float) -> Point:
        """The printed speed-up beside AL / ``ratio``."""
        series = f"{self.printed['drafter'].partition(':')[0]} {self.printed['entropy']}"
        predicted = float(self.printed["acceptance_length"]) / ratio
        return Point("speed-bench", series, self.tokens, float(self.printed["speedup"]), predicted)


def table10(version: str = "") -> list[Table10Row]:
    """SPEED-Bench Table 10; one number per drafter is fitted on its 1k rows, which share their times."""
    rows: list[Table10Row] = []
    missing: dict[str, tuple[float, float]] = {}
    for printed in read("speed_bench_table10.csv"):
        row = {**printed, "setting": "speed-bench"}
        curve = from_length(float(row["acceptance_length"]), 3, kind=row["drafter"].partition(":")[0])
        result = evaluated(row, 3, 16, float(row["input_tokens"]), curve, version=version)
        new = Table10Row(row, result, 0.0, 0.0)
        seconds = (new.ratio - new.modelled_ratio) * new.plain_s
        fitted = missing.setdefault(row["drafter"], (seconds, seconds / float(result.draft_s)))
        rows.append(replace(new, missing_s=fitted[0], missing_factor=fitted[1]))
    return rows


def verification_points(context: float | None = None) -> list[Point]:
    """D-Cut's verification times: the target's pass over a share of batch * 16 rows, in ms."""
    points = []
    for row in read("verification.csv"):
        run, share = deployment(row["setting"], True), float(row["share"])
        keys = context or context_of(row["setting"])
        seconds = float(target_step(run, float(row["batch"]), share * BLOCK, keys, host=False).total_s)
        points.append(Point(row["setting"], f"batch {row['batch']}", share, float(row["verify_ms"]), 1e3 * seconds, "ms"))
    return points


def context_of_verification(setting: str) -> tuple[float, float]:
    """(ms a sequence adds at equal rows, keys per sequence at which the model adds as much), of D-Cut's verification times.

    Equal rows cost equal matrices, so what grows with the number of sequences is attention: the table says by itself how
    much context it was measured at, which its page does not print.
    """
    printed = {
        (float(r["batch"]), float(r["share"])): float(r["verify_ms"])
        for r in read("verification.csv")
        if r["setting"] == setting
    }
    pairs = [(a, b) for a in printed for b in printed if a[0] * a[1] == b[0] * b[1] and b[0] == 2.0 * a[0]]
    slope = float(np.mean([(printed[b] - printed[a]) / (b[0] - a[0]) for a, b in pairs]))
    keys = np.geomspace(64.0, 65536.0, 400)
    run = deployment(setting, True)
    times = {cell: 1e3 * target_step(run, cell[0], cell[1] * BLOCK, keys, host=False).total_s for cell in printed}
    slopes = np.mean([(times[b] - times[a]) / (b[0] - a[0]) for a, b in pairs], axis=0)
    return slope, float(np.interp(slope, slopes, keys))


def share_points() -> list[Point]:
    """What the d-cut modifier makes of the uncut lengths at each share, beside the lengths that D-Cut prints."""
    row = next(r for r in read("series.csv") if r["series"] == "DFlash-16")
    curve = acceptance(row["length"], "dflash", BLOCK - 1, "")
    points = []
    for printed in read("shares.csv"):
        share = float(printed["share"])
        length = length_at_budget(curve.s, BLOCK - 1, share * BLOCK - 1)
        points.append(Point("d-cut lengths", "AL at share", share, float(printed["acceptance_length"]), length, "tokens"))
    return points


def wrong_signs(points: Sequence[Point]) -> list[Point]:
    """Speed-ups measured on the other side of 1 than predicted, by more than ``MARGIN``."""
    return [p for p in points if p.has_sign and (p.measured > 1.0) != (p.predicted > 1.0)]


def score(points: Sequence[Point]) -> Score:
    """Signs, orders and errors of ``points`` together; only points of one setting are compared."""
    counted = sum(p.has_sign for p in points)
    pairs = [
        (a, b)
        for a, b in combinations(points, 2)
        if a.setting == b.setting and (a.series == b.series or a.load == b.load or a.setting == "speed-bench")
        and abs(a.measured / b.measured - 1.0) > MARGIN
    ]  # fmt: skip
    ordered = sum((a.measured > b.measured) == (a.predicted > b.predicted) for a, b in pairs)
    return Score((counted - len(wrong_signs(points)), counted), (ordered, len(pairs)), np.array([abs(p.error) for p in points]))
