"""``specadvisor validate``: predict published or own measured sweeps and score the predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specadvisor.cli import options as opt

if TYPE_CHECKING:
    from specadvisor.validation import Score, Validation
    from specadvisor.validation.predict import Acceptance

SCHEMA_VERSION = 1


def validate(
    sweeps: Annotated[
        Path,
        typer.Argument(
            help="CSV of measured sweeps: case_id, group_id, target_config, gpu, engine, drafter_kind, k, concurrency ..."
        ),
    ],
    configs: Annotated[
        list[Path] | None, typer.Option("--configs", help="Folder with the config files that rows name; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write one prediction per row to this CSV.", callback=opt.check_output),
    ] = None,
    acceptance: Annotated[
        str, typer.Option(help="row: what each row measured; once: one row per case, drafter and tree.")
    ] = "row",
    anchor_per_series: Annotated[
        bool, typer.Option(help="Give one measured speed-up per series; score the other loads.")
    ] = False,
    slices: Annotated[
        bool, typer.Option(help="Also score by hardware, architecture, engine, drafter, load and family.")
    ] = True,
    format: opt.Format = "table",
) -> None:
    """Predict a table of measured sweeps and score choice, sign, size and intervals against naive policies."""
    from specadvisor.report.writers import write
    from specadvisor.validation import validate as run

    result = run(sweeps, configs or [], cast("Acceptance", acceptance), anchor_per_series)
    if output:
        write(output, result.predictions.drop(columns="acceptance_known").to_csv(index=False, float_format="%.6g"))
        typer.echo(f"{len(result.predictions)} predictions written to {output}", err=True)
    for reason, count in result.unpredicted.items():
        typer.echo(f"not predicted: {count} rows: {reason}", err=True)
    typer.echo(render(result, format, slices))


def render(result: Validation, format: str, slices: bool) -> str:
    """The report in one of ``options.FORMATS``."""
    scores = {name: score for name, score in result.scores.items() if slices or ": " not in name}
    if format == "json":
        content = {name: score.to_dict() for name, score in scores.items()}
        return json.dumps(
            _without_nan({"schema_version": SCHEMA_VERSION, "scores": content, "unpredicted": result.unpredicted}), indent=2
        )
    main = {name: score for name, score in scores.items() if ": " not in name}
    parts = [_layout(f"Regret: {name}", POLICY_HEAD, _policies(score), format) for name, score in main.items()]
    parts.append(
        _layout("Sign, size, order, interval", FIGURE_HEAD, [_figures(name, score) for name, score in main.items()], format)
    )
    choice = next(iter(main.values())).drafter_choice
    rows = [[name, str(int(x["n"])), _percent(x["mean"]), _percent(x["within_3"])] for name, x in choice.items()]
    parts.append(_layout("Choice of drafter and k together", ["policy", "sets", "mean", "<= 3%"], rows, format))
    if slices:
        rows = [_figures(name, score) for name, score in scores.items() if ": " in name]
        parts.append(_layout("Slices", FIGURE_HEAD, rows, format))
    return "\n\n".join(parts)


POLICY_HEAD = ["policy", "groups", "mean", "95% over families", "median", "p90", "<= 3%"]
FIGURE_HEAD = [
    "groups of", "n", "regret", "chosen_k", "k = 3", "sign", "balanced", "thr median", "thr p90", "TPOT median", "TPOT p90",
    "rank", "inside", "width",
]  # fmt: skip


def _policies(score: Score) -> list[list[str]]:
    return [
        [
            policy,
            str(int(x["n"])),
            _percent(x["mean"]),
            f"[{_percent(x['low'])}, {_percent(x['high'])}]",
            *(_percent(x[name]) for name in ("median", "p90", "within_3")),
        ]
        for policy, x in score.regret.items()
    ]


def _figures(name: str, score: Score) -> list[str]:
    sign = score.sign["main"]
    sizes = [_percent(score.size[metric][figure]) for metric in ("throughput", "tpot") for figure in ("median", "p90")]
    return [
        name,
        str(score.groups),
        *(_percent(score.regret[policy]["mean"]) for policy in ("predicted", "recommended", "k = 3")),
        _percent(sign["accuracy"]),
        _percent(sign["balanced"]),
        *sizes,
        _number(score.order["mean"]),
        _percent(score.coverage["inside"]),
        _number(score.coverage["width"]),
    ]


def _layout(title: str, head: list[str], rows: list[list[str]], format: str) -> str:
    if format == "csv":
        return "\n".join(
            ",".join(f'"{cell}"' for cell in line) for line in [["section", *head], *([title, *row] for row in rows)]
        )
    if format == "md":
        lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]
        return f"**{title}**\n\n" + "\n".join(lines)
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
        for line in [head, *rows]
    ]
    return "\n".join([title, *lines])


def _percent(value: float) -> str:
    return "-" if value != value else f"{100 * value:.1f}%"


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and value != value else value
