"""What a report shows, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specadvisor.advise.recommendation import NO_DRAFTER, Recommendation
from specadvisor.advise.wording import loads
from specadvisor.report.blocks import Block, Lines, Table
from specadvisor.report.comparison import drafters_table, leaders_table, memory_table, needs_table
from specadvisor.report.numbers import gigabytes, milliseconds, span, times, tokens

if TYPE_CHECKING:
    from specadvisor.advise.explain import Explanation
    from specadvisor.advise.guidelines import GuidelineTrace


def recommendation_blocks(rec: Recommendation, *, all_guidelines: bool = False) -> list[Block]:
    """The report, top down: answer, loads, schedule, guidelines, drafters, memory, what to watch and what to measure."""
    blocks: list[Block] = [Lines(setting(rec), rec.headline), _loads(rec)]
    if len(rec.load.concurrency) > 1 and rec.schedule.drafter != NO_DRAFTER:
        blocks.append(_schedule(rec))
    if ahead := leaders_table(rec):
        blocks.append(ahead)
    traces = rec.guidelines if all_guidelines else rec.guidelines[_middle(len(rec.guidelines))]
    blocks += [guideline_table(trace) for trace in traces]
    if rec.drafters:
        blocks += [drafters_table(rec), needs_table(rec)]
    blocks.append(memory_table(rec))
    if rec.break_even:
        blocks.append(Lines("Is training one worth it", rec.break_even.sentences()))
    for title, lines in (
        ("Anchors", rec.anchors),
        ("Watch out", rec.warnings),
        ("Measure next", rec.measurement_plan),
        ("Assumed", rec.assumptions),
        ("Left out", _left_out(rec)),
    ):
        if lines:
            blocks.append(Lines(title, tuple(lines)))
    return blocks


def _left_out(rec: Recommendation) -> tuple[str, ...]:
    """Drafters by the reason they share."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in rec.excluded.items():
        by_reason.setdefault(reason, []).append(name)
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _middle(count: int) -> slice:
    """The middle load: guidelines of every load would bury the answer."""
    return slice((count - 1) // 2, (count - 1) // 2 + 1) if count else slice(0, 0)


def setting(rec: Recommendation) -> str:
    """One line: what is deployed."""
    d = rec.deployment
    gpus = d.ranks * d.dp
    layout = "".join(
        f" {name}={value}" for name, value in (("tp", d.tp), ("ep", d.ep), ("dp", d.dp), ("pp", d.pp)) if value > 1
    )
    where = f"the processor ({d.gpu.name})" if d.gpu.family == "cpu" else f"{gpus} x {d.gpu.id}"
    return f"{d.model.name} ({d.model.weight_format}) on {where}{layout}, {d.serving.id} {d.serving.version}"


def _loads(rec: Recommendation) -> Table:
    """The schedule's drafter at each load."""
    rows = []
    curve = rec.curves.get(rec.schedule.drafter)
    for column, users in enumerate(rec.load.concurrency):
        plain, chosen = rec.plain[column], rec.chosen(column)
        near = span(curve.choices[column].plateau) if curve else "0"
        binding = rec.guidelines[column].binding if column < len(rec.guidelines) else 0
        rows.append(
            (
                str(users), str(chosen.k), near, f"{chosen.acceptance_length.mid:.2f}", tokens(plain.throughput_tok_s),
                tokens(chosen.throughput_tok_s), times(chosen.throughput_speedup),
                f"{milliseconds(chosen.tpot_s)} ({chosen.tpot_speedup.mid:.2f}x)", f"{chosen.batch:.0f}",
                f"G{binding}" if binding else "-",
            )
        )  # fmt: skip
    replica = " on a replica" if rec.deployment.dp > 1 else ""
    columns = (
        "load", "k", "within 2%", "AL", "tok/s plain", "tok/s", "gain (80%)", "TPOT ms (gain)", f"running{replica}", "binds",
    )  # fmt: skip
    drafter = "" if curve is None else f" with {rec.schedule.drafter}"
    extra = curve.evaluation.extra_gpus if curve else 0
    per_gpu = f" per GPU; tok/s of all, with {extra} a replica that only draft" if extra else ""
    return Table(f"By load{drafter} (concurrent requests; gain in throughput{per_gpu})", columns, tuple(rows))


def _schedule(rec: Recommendation) -> Table:
    rows = tuple(
        (
            loads(t.low, t.high), str(t.k), times(t.at_low) if t.k else "-", times(t.at_high) if t.k else "-",
            str(t.deployed_k), gigabytes(t.held_bytes), milliseconds(t.idle_s), f"{t.idle_speedup:.2f}x",
        )
        for t in rec.schedule.tiers
    )  # fmt: skip
    columns = ("load", "k", "gain from", "to", "k if loaded", "GB held", "ms a step", "throughput")
    title = (
        f"Schedule of {rec.schedule.drafter} (k if loaded: on a server that holds it anyway; last three: what it costs there "
        "while k = 0)"
    )
    return Table(title, columns, rows)


def guideline_table(trace: GuidelineTrace) -> Table:
    """The five guidelines at one load."""
    rows = tuple(
        (f"G{g.number}" + (" *" if g.number == trace.binding else ""), "-" if g.k is None else str(g.k), g.says)
        for g in trace.guidelines
    )
    why = f"* binds: {trace.because}" if trace.binding else trace.because
    title = f"Guidelines at concurrency {trace.concurrency}, {trace.drafter} k = {trace.k} ({why})"
    return Table(title, ("", "k", "this case"), rows, ("", "this case"))


def explanation_blocks(e: Explanation) -> list[Block]:
    """The trace of one point."""
    d = e.deployment
    result = (
        f"step {milliseconds(e.step_s)} ms, round {milliseconds(e.round_s)} ms, of it drafting {milliseconds(e.draft_s)} ms",
        f"AL {e.acceptance_length.mid:.2f} ({e.acceptance_length.low:.2f}-{e.acceptance_length.high:.2f}): "
        f"{e.acceptance_source}",
        f"running {e.batch:.0f} of {e.concurrency}{' on each replica' if d.dp > 1 else ''} "
        f"({e.batch_without:.0f} without a drafter)",
        f"throughput {tokens(e.throughput_tok_s)} tok/s against {tokens(e.throughput_tok_s_without)}: "
        f"{times(e.throughput_speedup)}" + (f" per GPU ({e.extra_gpus} more a replica draft)" if e.extra_gpus else ""),
        f"TPOT gain {times(e.tpot_speedup)}",
    )
    where = f"{d.model.name} on {d.gpu.id}, {d.serving.id}"
    title = f"{where}: {e.drafter} k = {e.k} at concurrency {e.concurrency}, {e.load.context} keys"
    rows = tuple(
        (c.component, milliseconds(c.step_s), milliseconds(c.draft_s), milliseconds(c.verify_s), f"{c.sigma:.0%}", c.formula)
        for c in e.components
    )
    parts = Table(
        "Time by component",
        ("component", "step ms", "draft ms", "verify ms", "error", "formula"),
        rows,
        ("component", "formula"),
    )
    sources = Lines("Parameters", tuple(f"{c.component}: {c.source}" for c in e.components))
    missing = tuple(f"cannot be run here: {text}" for text in e.missing)
    return [Lines(title, (*missing, *result)), parts, guideline_table(e.guidelines), _marginal(e.guidelines), sources]


def _marginal(trace: GuidelineTrace) -> Table:
    """Guideline 4 step by step."""
    steps: Sequence[dict[str, float]] = trace.guidelines[3].numbers["steps"]
    rows = tuple(
        (
            str(s["k"]),
            f"{s['marginal_gain']:+.1%}",
            f"{s['marginal_cost']:+.1%}",
            "yes" if s["marginal_gain"] > s["marginal_cost"] else "no",
        )
        for s in steps
    )
    return Table("Guideline 4: each further draft token", ("k", "tokens", "time", "pays"), rows)
