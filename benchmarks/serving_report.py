"""How the scores of predicted sweeps are printed: the README's table, and the tables of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from specadvisor.validation.score import score


def score_lines(table: pd.DataFrame, predictions: pd.DataFrame) -> list[str]:
    """The table of the README: regret of the advice and of naive policies, and the errors of the predicted speed-ups."""
    scores = score(table, predictions)
    names = ("acceptance known", "acceptance unknown", "all")
    lines = [f"{'mean regret %, leave-family-out':36s}" + "".join(f"{n.replace('acceptance ', ''):>18s}" for n in names)]
    policies = {"recommended": "the advice", "predicted": "argmax of the predictions"}
    for policy in ("recommended", "predicted", "k = 3", "k = 5", "largest k", "always off", "best k at c = 1 kept"):
        cells = [scores[name].regret[policy] for name in names]
        text = "".join(f"{100 * c['mean']:7.1f} [{100 * c['low']:.1f}, {100 * c['high']:.1f}]".rjust(18) for c in cells)
        lines.append(f"  {policies.get(policy, policy):34s}{text}")
    counts = "".join(f"{scores[name].groups:18d}" for name in names)
    lines += [
        f"  {'groups':34s}{counts}",
        "",
        f"{'speed-ups':36s}" + "".join(f"{n.replace('acceptance ', ''):>18s}" for n in names),
    ]
    for label, metric in (("throughput error median / p90 %", "throughput"), ("TPOT error median / p90 %", "tpot")):
        sizes = [scores[name].size[metric] for name in names]
        lines.append(f"  {label:34s}" + "".join(f"{100 * x['median']:.1f} / {100 * x['p90']:.0f}".rjust(18) for x in sizes))
    signs = [scores[name].sign["main"] for name in names]
    lines.append(
        f"  {'faster or slower right / balanced':34s}"
        + "".join(f"{100 * x['accuracy']:.0f} / {100 * x['balanced']:.0f}".rjust(18) for x in signs)
    )
    inside = [scores[name].coverage["inside"] for name in names]
    lines.append(f"  {'inside the stated interval %':34s}" + "".join(f"{100 * x:18.0f}" for x in inside))
    choice = scores["all"].drafter_choice
    lines.append(
        f"  drafter and k together: {100 * choice['predicted']['mean']:.1f}% regret on {choice['predicted']['n']:.0f} sets, "
        f"{100 * choice['fixed order, k = 3']['mean']:.1f}% with a fixed order of kinds and k = 3"
    )
    return lines


HEAD = (
    "groups", "n", "argmax", "95% over families", "chosen_k", "<= 3%", "p90", "k = 3", "sign", "balanced", "throughput median",
    "p90", "TPOT median", "p90", "rank", "inside", "drafter and k",
)  # fmt: skip


def report(title: str, table: pd.DataFrame, predictions: pd.DataFrame) -> list[str]:
    """The lines of one scored set of predictions."""
    scores = score(table, predictions)
    lines = ["", f"### {title}", "", markdown(HEAD), markdown(["---"] * len(HEAD))]
    for name in ("all", "acceptance known", "acceptance unknown", "acceptance known, 3 or more k"):
        if name not in scores:
            continue
        s = scores[name]
        best, advice = s.regret["predicted"], s.regret["recommended"]
        sizes = [s.size[metric][figure] for metric in ("throughput", "tpot") for figure in ("median", "p90")]
        lines.append(
            markdown(
                [
                    name,
                    str(s.groups),
                    f"{best['mean']:.2%}",
                    f"{best['low']:.1%} to {best['high']:.1%}",
                    f"{advice['mean']:.2%}",
                ]
                + [f"{v:.0%}" for v in (best["within_3"], best["p90"])]
                + [f"{v:.1%}" for v in (s.regret["k = 3"]["mean"], s.sign["main"]["accuracy"], s.sign["main"]["balanced"])]
                + [f"{v:.1%}" for v in sizes]
                + [f"{s.order['mean']:.2f}", f"{s.coverage['inside']:.0%}", f"{s.drafter_choice['predicted']['mean']:.1%}"]
            )
        )
    return lines


def markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
