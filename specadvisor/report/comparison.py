"""The drafters of a recommendation side by side, and what they do to the memory."""

from __future__ import annotations

import numpy as np

from specadvisor.advise.bills import DrafterRow
from specadvisor.advise.recommendation import NO_DRAFTER, Recommendation
from specadvisor.model.architecture import Attention
from specadvisor.report.blocks import Table
from specadvisor.report.numbers import gigabytes, times, tokens

# Availability in a column's width.
SHORT = {"in the checkpoint": "in checkpoint", "published for this model": "published", "to be trained": "to train"}


def leaders_table(rec: Recommendation) -> Table | None:
    """The best expected gain at each load; None where the recommended drafter has it everywhere."""
    if all(one.drafter in (rec.schedule.drafter, NO_DRAFTER) for one in rec.leaders):
        return None
    rows = tuple(
        (str(one.concurrency), one.drafter, str(one.k), times(one.gain) if one.k else "-", one.availability if one.k else "-")
        for one in rec.leaders
    )
    columns = ("load", "drafter", "k", "expected gain", "where it comes from")
    return Table("Best drafter by load, whatever it takes to get it", columns, rows, ("drafter", "where it comes from"))


def drafters_table(rec: Recommendation) -> Table:
    """Guideline 5 at the lowest, the middle and the highest load; the best mean gain first."""
    stated = rec.load.concurrency
    shown = sorted({0, (len(stated) - 1) // 2, len(stated) - 1})
    rows = []
    for row in _by_gain(rec):
        gains = []
        for place, c in enumerate(shown):
            k, gain = row.best_k[c], row.speedup[c]
            interval = f" ({gain.low:.1f}-{gain.high:.1f})" if place == 0 else ""
            gains.append(f"k {k}: {gain.mid:.2f}x{interval}" if k else "off")
        known = "" if rec.curves[row.drafter].acceptance_known else "?"
        length = (f"{row.acceptance_length.mid:.2f}{known}", f"{row.draft_share:.0%}") if row.best_k[0] else ("-", "-")
        rows.append(
            (
                row.drafter, *length, gigabytes(row.memory_bytes),
                *gains, SHORT.get(row.availability, row.availability),
            )
        )  # fmt: skip
    columns = ("drafter", f"AL at {stated[0]}", "draft", "GB", *(f"at {stated[c]}" for c in shown), "source")
    return Table("Drafters compared (?: catalogue value)", columns, tuple(rows), ("drafter", "source"))


def needs_table(rec: Recommendation) -> Table:
    """What each drafter takes to get and to run, in the same order."""
    rows = []
    for row in _by_gain(rec):
        level, _, sizes = row.training.partition("; ")
        published = sizes.partition("; ")[0]
        rows.append((row.drafter, f"{level}: {published}" if published else level, row.support))
    columns = ("drafter", "training, first published size", "engine")
    return Table("What they take (all published sizes and operation: specadvisor drafters ID)", columns, tuple(rows), columns)


def _by_gain(rec: Recommendation) -> list[DrafterRow]:
    """The drafters, the best mean gain over the stated loads first."""

    def mean_gain(row: DrafterRow) -> float:
        return float(np.mean([np.log(max(speedup.mid, 1e-9)) for speedup in row.speedup]))

    return sorted(rec.drafters, key=mean_gain, reverse=True)


def memory_table(rec: Recommendation) -> Table:
    """The memory of one GPU without a drafter and with the recommended one."""
    rows = tuple(
        (
            bill.drafter, str(bill.k), gigabytes(bill.total_bytes), gigabytes(bill.weight_bytes), gigabytes(bill.drafter_bytes),
            gigabytes(bill.reserve_bytes), gigabytes(bill.verify_bytes), gigabytes(bill.kv_pool_bytes),
            tokens(bill.kv_pool_tokens), f"{bill.sequences:,.0f}",
        )
        for bill in rec.memory
        if bill.drafter in (NO_DRAFTER, rec.schedule.drafter)
    )  # fmt: skip
    columns = ("drafter", "k", "usable", "weights", "drafter's", "reserve", "verify", "KV pool", "KV tokens", "requests")
    where = "the processor" if rec.deployment.gpu.family == "cpu" else "one GPU"
    title = (
        f"Memory of {where} in GB (reserve: activations and graphs; verify: set aside to check drafts); requests of "
        f"{rec.load.context:,} tokens that fit, with k draft tokens each"
    )
    if any(isinstance(la.mixer, Attention) and la.mixer.window for la in rec.deployment.model.layers):
        title += "; layers with a sliding window keep only that of a request, so more fit than KV tokens say"
    return Table(title, columns, rows, ("drafter",))
