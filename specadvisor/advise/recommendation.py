"""The answer of ``Advisor.recommend``: frozen, complete, printable in several forms without computing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from specadvisor.advise.choose import Choice, Verdict
from specadvisor.advise.evaluate import Evaluation
from specadvisor.ranges import Range

if TYPE_CHECKING:
    import pandas as pd

    from specadvisor.acceptance import Survival
    from specadvisor.advise.bills import DrafterRow, MemoryBill
    from specadvisor.advise.break_even import BreakEven
    from specadvisor.advise.gain import Gains
    from specadvisor.advise.guidelines import GuidelineTrace
    from specadvisor.drafters import Drafter
    from specadvisor.step import Deployment

NO_DRAFTER = "none"
Objective = Literal["throughput", "latency", "goodput"]


@dataclass(frozen=True, slots=True)
class Load:
    """What the deployment is asked to serve. ``context`` is the mean number of keys a decode step sees.

    ``concurrency`` counts requests in flight on the whole deployment. None lengths: unknown, no prefill term.
    """

    concurrency: tuple[int, ...]
    context: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    workload: str = "mixed"
    temperature: float = 0.0
    objective: Objective = "throughput"
    max_tpot_s: float | None = None
    max_ttft_s: float | None = None

    @property
    def request_tokens(self) -> int:
        """Tokens that a request holds at its end; where a length is unknown, the context."""
        return self.context if self.input_tokens is None else max(self.context, self.input_tokens + (self.output_tokens or 0))


@dataclass(frozen=True, slots=True)
class Leader:
    """The drafter with the best expected gain at one load, whatever the schedule runs; ``k`` 0: none gains there."""

    concurrency: int
    drafter: str
    k: int
    gain: Range
    availability: str


@dataclass(frozen=True, slots=True)
class Option:
    """One (drafter, k) at one concurrency; k = 0 is plain decoding without a drafter in memory.

    ``throughput_tok_s`` counts all replicas with their ``extra_gpus`` that only draft; ``throughput_speedup`` is per GPU.
    ``objective``: what the ranking sorts by (tok/s for throughput and goodput, without the share of the extra GPUs; 1/TPOT
    for latency). ``ttft_s`` is nan where the prompt length is unknown.
    """

    concurrency: int
    drafter: str
    k: int
    acceptance_length: Range
    batch: float
    round_s: float
    draft_share: float
    throughput_tok_s: float
    tpot_s: float
    ttft_s: float
    throughput_speedup: Range
    tpot_speedup: Range
    extra_gpus: int
    objective: float
    meets_limits: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Tier:
    """Loads ``low`` to ``high`` share one number of draft tokens.

    ``at_low``, ``at_high``: gain over plain decoding at the two ends. ``k`` compares with a server that has no drafter
    loaded; ``deployed_k`` is the best that a server with the drafter loaded can do (its memory is spent anyway).
    ``held_bytes`` (one GPU: all that the target's cache loses) and ``idle_s`` (per step) are what a loaded drafter costs
    while k = 0; ``idle_speedup`` is the throughput of that state over plain decoding at the tier's upper end.
    """

    low: int
    high: int
    k: int
    deployed_k: int
    at_low: Range
    at_high: Range
    held_bytes: float
    idle_s: float
    idle_speedup: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Number of draft tokens by load for one drafter. ``crossover``: lowest load from which on speculation does not pay."""

    drafter: str
    tiers: tuple[Tier, ...]
    crossover: int | None

    def k_at(self, concurrency: float) -> int:
        """Draft tokens at ``concurrency`` (beyond the last tier: the last tier's)."""
        return next((t.k for t in self.tiers if concurrency <= t.high), self.tiers[-1].k)


@dataclass(frozen=True)
class Curve:
    """One drafter over (k, concurrency): arrays for plots and sweeps, and the choice at each load.

    ``gains``: the objective over plain decoding, anchors applied. ``acceptance_known`` is False where the survival curve is
    a catalogue value. ``missing``: what of it the engine cannot run, a sentence each; empty where it runs.
    """

    drafter: Drafter
    survival: Survival
    acceptance_known: bool
    evaluation: Evaluation
    gains: Gains
    choices: tuple[Choice, ...]
    missing: tuple[str, ...] = ()

    @property
    def gain(self) -> Range:
        """The objective over plain decoding with its interval, (k, concurrency)."""
        return self.gains.gain

    @property
    def name(self) -> str:
        return self.drafter.name

    @property
    def reach(self) -> int | None:
        """The last position whose acceptance was measured; None where it is a catalogue value, but for copied text the usual
        one of published rows.
        """
        copied: int | None = getattr(self.survival, "reach", None)
        return self.survival.measured[1] if self.acceptance_known and self.survival.measured else copied

    def row(self, k: int) -> int:
        """Index of ``k`` on the first axis of the arrays."""
        return self.drafter.allowed_k().index(k)


@dataclass(frozen=True, slots=True)
class Best:
    """The fixed setting with the best mean log objective over the stated loads; ``options``: the same setting at each."""

    drafter: str
    k: int
    speedup: Range
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Recommendation:
    """Everything ``recommend`` found. ``plain``: plain decoding at each load."""

    deployment: Deployment
    load: Load
    headline: tuple[str, ...]
    best: Best
    plain: tuple[Option, ...]
    schedule: Schedule
    guidelines: tuple[GuidelineTrace, ...]
    drafters: tuple[DrafterRow, ...]
    memory: tuple[MemoryBill, ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    measurement_plan: tuple[str, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)
    break_even: BreakEven | None = None
    anchors: tuple[str, ...] = ()
    leaders: tuple[Leader, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        one, gain = self.deployment, self.best.speedup
        where = f"{one.model.name} on {one.gpu.id} ({one.ranks * one.dp} GPUs), {one.serving.id}"
        what = f"{self.best.drafter} k = {self.best.k}, {gain.mid:.2f}x ({gain.low:.2f}-{gain.high:.2f})"
        return f"Recommendation({where}; {what} at concurrency {', '.join(map(str, self.load.concurrency))})"

    @cached_property
    def ranking(self) -> tuple[Option, ...]:
        """Every (drafter, k) at every load, k = 0 included; per load the best objective first."""
        from specadvisor.advise.options import all_options

        found = [*self.plain, *(o for curve in self.curves.values() for o in all_options(self.load, curve))]
        return tuple(sorted(found, key=lambda o: (o.concurrency, -o.objective, o.k)))

    def chosen(self, column: int) -> Option:
        """The schedule drafter's choice at the ``column``-th stated load; plain decoding where that is k = 0."""
        from specadvisor.advise.options import option

        curve = self.curves.get(self.schedule.drafter)
        k = curve.choices[column].k if curve else 0
        return option(self.load, curve, curve.row(k), column) if curve and k else self.plain[column]

    def at(self, concurrency: int) -> tuple[Option, ...]:
        """The ranking at one of the stated loads."""
        return tuple(o for o in self.ranking if o.concurrency == concurrency)

    @property
    def acceptance_known(self) -> bool:
        """False where the best setting rests on a catalogue value."""
        curve = self.curves.get(self.schedule.drafter)
        return curve is None or curve.acceptance_known

    def table(self) -> str:
        """The console report as plain text."""
        from specadvisor.report.console import render

        return render(self)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary with ``schema_version``."""
        from specadvisor.report.data import recommendation_dict

        return recommendation_dict(self)

    def to_frame(self) -> pd.DataFrame:
        """The ranking as a tidy table, units in the column names."""
        import pandas as pd

        from specadvisor.report.data import option_rows

        return pd.DataFrame(option_rows(self.ranking))

    def to_csv(self, path: str | Path | None = None) -> str:
        """The ranking as CSV text, written to ``path`` where one is given."""
        from specadvisor.report.data import option_rows
        from specadvisor.report.writers import csv_text, write

        text = csv_text(option_rows(self.ranking))
        if path is not None:
            write(Path(path), text)
        return text

    def plot(self, directory: str | Path = ".") -> list[Path]:
        """Draw roofline, speed-up curves and heat map into ``directory``; returns the files."""
        from specadvisor.report.plots import plot_all

        return plot_all(self, Path(directory))

    def flags(self, engine: str | None = None, model: str = "", drafter_path: str | None = None) -> str:
        """Settings to paste into ``engine`` (default: the deployment's), with the versions they are for."""
        from specadvisor.advise.launch import launch_plan
        from specadvisor.engines import flags

        return flags(engine or self.deployment.serving.id, launch_plan(self, model, drafter_path))
