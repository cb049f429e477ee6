"""Fits the serving parameters on published sweeps and reports them leave-family-out.

    python benchmarks/serving_fit.py                 the scores, from the fits in benchmarks/data/sweeps/serving_folds.csv
    python benchmarks/serving_fit.py --refit [--start neutral] [-o REPORT.md]       fits again (10 minutes), with the terms

For each family (source of sweeps) the parameters are fitted on the other families by coordinate descent from the same
start, and its rows are predicted with them: no row is predicted with parameters that saw its family. A parameter leaves
its start only where the loss falls by more than ``WORTH``. The values fitted on all families are what ``profiles/engines``
ships. Every term is then switched off alone and compared in pairs over families.

Starts: ``physical`` counts launches and host work (see ``PARAMETERS``); ``neutral`` has datasheet compute and no host terms.
The structure of the model, and the physical start, were chosen while looking at residuals of these sweeps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from serving_report import markdown, report, score_lines

from specadvisor.hardware import Gpu
from specadvisor.step import Deployment
from specadvisor.validation.anchored import anchor_per_series
from specadvisor.validation.groups import argmax_choice, groups_of
from specadvisor.validation.predict import predict, with_choice
from specadvisor.validation.score import bootstrap_mean
from specadvisor.validation.setup import Setup
from specadvisor.validation.sweeps import read_sweeps

DATA = Path(__file__).parent / "data" / "sweeps"
CONFIGS = (str(DATA / "configs"),)
FOLDS = DATA / "serving_folds.csv"
ALL = "none"
PYTHON_ENGINES = ("vllm", "sglang")
Setting = tuple[float, ...]


@dataclass(frozen=True)
class Parameter:
    """One number, where the search starts (``physical`` or ``neutral``), its candidates, and the value that switches it off."""

    name: str
    physical: float
    neutral: float
    values: tuple[float, ...]
    off: float


# Loss by which a parameter must improve to leave its start: 0.1 points of error or regret, a fraction of its noise.
WORTH = 0.001

PARAMETERS = (
    # H100s hold 865 of 990 TFLOP/s in a long FlashMLA run.
    Parameter("sustained_compute", 0.87, 1.0, (0.65, 0.75, 0.87, 1.0), 1.0),
    # Half of the 1.25 ms of Python that a vLLM iteration takes (vllm-tt-plugin pull request 130): the part after sampling.
    Parameter("round_overhead_s", 0.0006, 0.0, (0.0, 0.0003, 0.0006, 0.0009, 0.0012), 0.0),
    # One eager attention call, its metadata and one sampling call between graph pieces (vLLM issue 45258).
    Parameter("draft_pass_s", 0.0002, 0.0, (0.0, 0.0001, 0.0002, 0.0003), 0.0),
    # About 12 launches of 2.5 us.
    Parameter("draft_layer_launch_s", 0.00003, 0.0, (0.0, 0.000015, 0.00003, 0.00006), 0.0),
    # About 20 launches with their Python, 15 us each.
    Parameter("eager_layer_s", 0.0003, 0.00015, (0.00015, 0.0003, 0.0005), 0.0),
    Parameter("prefill_efficiency", 0.54, 0.54, (0.4, 0.54, 0.7), 1e9),
    Parameter("floor_scale", 0.3, 0.3, (0.15, 0.3, 0.6, 1.0), 1.0),
    Parameter("gguf_row_cycles", 0.024, 0.024, (0.012, 0.018, 0.024, 0.03), 0.0),
    Parameter("gguf_wide_factor", 1.73, 1.73, (1.4, 1.73, 2.1), 1.0),
    Parameter("w4a16_row_cycles", 0.0009, 0.0009, (0.0, 0.0009, 0.002), 0.0),
)
NAMES = tuple(p.name for p in PARAMETERS)


def adjusted(setting: Setting) -> Callable[[Setup], Setup]:
    """Every setup with the parameters of ``setting``; host terms go to the engines written in Python."""
    value = dict(zip(NAMES, setting, strict=True))
    gpus: dict[tuple[str, float, float], Gpu] = {}

    def deployment(old: Deployment) -> Deployment:
        serving = replace(old.serving, prefill_efficiency=value["prefill_efficiency"], floor_scale=value["floor_scale"])
        if serving.id in PYTHON_ENGINES:
            serving = replace(serving, **{name: value[name] for name in NAMES[1:5]})
        key = (old.gpu.id, old.gpu.clock_scale, old.gpu.memory_bytes_per_s)
        if key not in gpus:
            gpus[key] = with_row_laws(old.gpu, value)
        return replace(old, serving=serving, gpu=gpus[key], sustained_compute=value["sustained_compute"])

    return lambda setup: replace(setup, plain=deployment(setup.plain), speculating=deployment(setup.speculating))


def with_row_laws(gpu: Gpu, value: Mapping[str, float]) -> Gpu:
    """The GPU with other costs per extra row in its low-bit kernels."""
    laws = {
        "gguf": {"row_cycles": value["gguf_row_cycles"], "wide_factor": value["gguf_wide_factor"]},
        "w4a16": {"row_cycles": value["w4a16_row_cycles"]},
    }

    def change(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(e, parameters={**e.parameters, **laws[e.format]}) if e.operator == "gemm" and e.format in laws else e
            for e in entries
        )

    assert gpu.kernels is not None
    return replace(
        gpu, kernels=replace(gpu.kernels, entries=change(gpu.kernels.entries), defaults=change(gpu.kernels.defaults))
    )


@dataclass
class Search:
    """Evaluated settings: predictions and the loss of every family."""

    table: pd.DataFrame
    start: Setting
    done: dict[Setting, tuple[pd.DataFrame, pd.Series]] = field(default_factory=dict)

    def at(self, setting: Setting) -> tuple[pd.DataFrame, pd.Series]:
        if setting not in self.done:
            predictions = predict(self.table, CONFIGS, "row", adjusted(setting))
            self.done[setting] = predictions, self.losses(predictions)
        return self.done[setting]

    def losses(self, predictions: pd.DataFrame) -> pd.Series:
        """Per family: mean |log(predicted / measured)| of the rows whose acceptance was measured, plus the mean regret."""
        table = self.table
        throughput = table.throughput_speedup.notna()
        measured = table.throughput_speedup.where(throughput, table.tpot_speedup)
        predicted = predictions.predicted_throughput_speedup.where(throughput, predictions.predicted_tpot_speedup)
        error = np.log(predicted / measured).abs().where(table.acceptance_given != "none")
        regret = {group.facts["family"]: [] for group in groups_of(table).values()}  # type: dict[str, list[float]]
        rows = dict(tuple(predictions.assign(gain=predicted).sort_values("k").groupby("group_id")))
        for name, group in groups_of(table).items():
            if group.facts["acceptance_given"] != "none":
                regret[group.facts["family"]].append(group.regret(argmax_choice(group, rows[name].gain.to_numpy(float))))
        mean_regret = pd.Series({family: np.mean(values) if values else np.nan for family, values in regret.items()})
        return error.groupby(table.family).mean() + mean_regret

    def fit(self, families: list[str], weights: pd.Series) -> Setting:
        """Coordinate descent over ``families``, two rounds; a family weighs as many groups as the scored means count it."""

        def loss(setting: Setting) -> float:
            values = self.at(setting)[1].reindex(families)
            known = values.notna()
            return float(np.average(values[known], weights=weights.reindex(families)[known]))

        best = self.start
        for _ in range(2):
            before = best
            for i, parameter in enumerate(PARAMETERS):
                others = [(*best[:i], v, *best[i + 1 :]) for v in parameter.values if v != best[i]]
                other = min(others, key=loss)
                if loss(other) < loss(best) - WORTH:
                    best = other
            if best == before:
                break
        return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--predictions", type=Path)
    parser.add_argument("--refit", action="store_true")
    parser.add_argument("--start", choices=("physical", "neutral"), default="physical")
    arguments = parser.parse_args()
    table = read_sweeps(DATA / "dev.csv")
    start = tuple(getattr(parameter, arguments.start) for parameter in PARAMETERS)
    search = Search(table, start)
    families = sorted(table.family.unique())
    known = table[table.acceptance_given != "none"]
    weights = known.groupby("family").group_id.nunique().reindex(families).fillna(0.0)
    if arguments.refit:
        fits = {ALL: search.fit(families, weights)}
        fits |= {family: search.fit([f for f in families if f != family], weights) for family in families}
        pd.DataFrame.from_dict(fits, orient="index", columns=list(NAMES)).rename_axis("left_out").to_csv(
            FOLDS, float_format="%g"
        )
    stored = pd.read_csv(FOLDS, index_col="left_out")
    folds = {str(family): tuple(float(v) for v in row) for family, row in zip(stored.index, stored.to_numpy(), strict=True)}
    everything = folds.pop(ALL)
    unseen = assembled(table, folds, lambda setting: search.at(setting)[0])
    lines = score_lines(table, unseen)
    if arguments.refit:
        once = assembled(table, folds, lambda setting: predict(table, CONFIGS, "once", adjusted(setting)))
        anchored, scored = anchor_per_series(table, unseen)
        anchored = with_choice(anchored, table)[scored]
        others = table[scored].reset_index(drop=True)
        lines += parameter_lines(start, everything, folds)
        lines += report("leave-family-out", table, unseen)
        lines += report("leave-family-out, acceptance measured once per case, drafter and tree", table, once)
        lines += report("leave-family-out, one measured speed-up per series, the other loads", others, anchored)
        lines += report("all families (in-sample)", table, search.at(everything)[0])
        lines += ["", *ablation(search, folds)]
    text = "\n".join(lines)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n", encoding="utf-8")
    if arguments.predictions:
        unseen.to_csv(arguments.predictions, index=False, float_format="%.6g")


def parameter_lines(start: Setting, everything: Setting, folds: Mapping[str, Setting]) -> list[str]:
    """Start, the fit of all families, and what the fits without one family chose."""
    lines = ["", markdown(["parameter", "start", "all families", "left-out folds"]), markdown(["---"] * 4)]
    for i, parameter in enumerate(PARAMETERS):
        chosen = ", ".join(f"{v:g}" for v in sorted({fold[i] for fold in folds.values()}))
        lines.append(markdown([parameter.name, f"{start[i]:g}", f"{everything[i]:g}", chosen]))
    return lines


def assembled(table: pd.DataFrame, folds: Mapping[str, Setting], predicted: Callable[[Setting], pd.DataFrame]) -> pd.DataFrame:
    """Predictions of each family with the parameters that were fitted without it."""
    done: dict[Setting, pd.DataFrame] = {}
    parts = []
    for family, setting in folds.items():
        if setting not in done:
            done[setting] = predicted(setting)
        parts.append(done[setting][table.family == family])
    return pd.concat(parts).sort_index()


def ablation(search: Search, folds: Mapping[str, Setting]) -> list[str]:
    """Each term switched off alone, in pairs over families: how much worse the loss of unseen families gets."""
    title = "### terms, paired over families: loss without the term minus loss with it, 95% interval"
    lines = [title, "", markdown(["term", "difference", "interval"]), markdown(["---"] * 3)]
    for i, parameter in enumerate(PARAMETERS):
        differences = {}
        for family, setting in folds.items():
            off = (*setting[:i], parameter.off, *setting[i + 1 :])
            differences[family] = search.at(off)[1].get(family, np.nan) - search.at(setting)[1].get(family, np.nan)
        known = pd.Series(differences).dropna()
        low, high = bootstrap_mean(known.to_numpy(float), known.index.to_numpy(), 2000)
        lines.append(f"| {parameter.name} | {known.mean():+.4f} | {low:+.4f} to {high:+.4f} |")
    return lines


if __name__ == "__main__":
    main()
