"""Read result folders of NVIDIA specdec_bench, the harness of SPEED-Bench (Model-Optimizer, examples/specdec_bench).

Written for specdec_bench 0.1.0 (commit a2fbac7bad8a). Metric files are JSON lists, one entry appended per run; keys and
numbers may be strings. ``Acceptance_Length_Histogram`` counts tokens per step, bonus included, so key 1 is a step that
accepted nothing; only lengths that occurred have keys. The prefill chunk counts as a step of length 1 and a request that
ends inside a block cuts its last step: both lower the acceptance length a little. ``Average_AL`` is a mean over requests,
not over steps: the step-weighted length of the histogram is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specadvisor.acceptance.convert import LARGEST_K, from_cumulative, from_histogram
from specadvisor.acceptance.survival import Survival
from specadvisor.checks import whole
from specadvisor.errors import InputError

METRIC_FILES = ("acceptance_rate.json", "specbench_results.json", "mtbench.json")
KINDS = {
    "EAGLE": "eagle", "EAGLE3": "eagle3", "MTP": "mtp", "DRAFT_TARGET": "draft_model", "NGRAM": "ngram", "DFLASH": "dflash",
    "PARD": "pard", "MEDUSA": "medusa", "SUFFIX": "suffix", "DSPARK": "dspark",
}  # fmt: skip
BIAS = "the prefill chunk counts as a step that accepted nothing and last steps are cut: AL is a little low"


@dataclass(frozen=True, slots=True)
class SpecdecBenchRun:
    """One run: its curve, the number of drafts, mean request AL by category, and the settings that were saved with it."""

    survival: Survival
    k: int
    steps: float | None
    kind: str | None
    category_lengths: Mapping[str, float]
    settings: Mapping[str, Any]


def read_specdec_bench(path: str | Path) -> list[SpecdecBenchRun]:
    """The runs of a result folder, or of one of its metric files; in the order in which they were appended.

    Raises ``InputError`` if nothing readable is there.
    """
    path = Path(path)
    file = path
    if path.is_dir():
        found = [path / name for name in METRIC_FILES if (path / name).is_file()]
        if not found:
            raise InputError("specdec_bench folder", str(path), f"a folder with {' or '.join(METRIC_FILES)}")
        file = found[0]
    entries = _entries(file)
    configuration = file.parent / "configuration.json"
    settings = _entries(configuration) if configuration.is_file() else []
    # One settings object may cover several appended runs.
    paired = settings if len(settings) == len(entries) else [settings[-1] if settings else {}] * len(entries)
    return [_run(entry, setting, file) for entry, setting in zip(entries, paired, strict=True)]


def _run(entry: Mapping[str, Any], settings: Mapping[str, Any], file: Path) -> SpecdecBenchRun:
    source = f"specdec_bench: {file.name}"
    histogram = _numbers("Acceptance_Length_Histogram", entry.get("Acceptance_Length_Histogram"), by_length=True)
    joint = {} if histogram else _numbers("Joint_Acceptance_Rate", entry.get("Joint_Acceptance_Rate"), by_length=True)
    if not histogram and not joint:
        raise InputError(
            "specdec_bench result", str(file), "an entry with Acceptance_Length_Histogram or Joint_Acceptance_Rate"
        )
    seen = max((length for length, value in (histogram or joint).items() if value), default=1)
    k = _drafts(settings, int(seen) - 1)
    steps = None
    if histogram:
        lengths = {int(length): count for length, count in histogram.items()}
        survival = from_histogram({**{k + 1: 0.0}, **lengths}, tokens_per_step=True, source=source)
        steps = sum(histogram.values())
    else:
        survival = from_cumulative(_filled({int(n): rate for n, rate in joint.items()}, k), source=source)
    categories = _numbers("Category_AL", entry.get("Category_AL"))
    kind = KINDS.get(str(settings.get("speculative_algorithm", "")).upper())
    return SpecdecBenchRun(survival.with_notes(BIAS), k, steps, kind, categories, dict(settings))


def _filled(joint: Mapping[int, float], k: int) -> list[float]:
    """P(at least j drafts) for j = 1..k; a length that never occurred has the value of the next one that did."""
    lengths = np.array(sorted(joint))
    values = [joint[int(n)] for n in lengths]
    return [float(values[i]) if (i := int(np.searchsorted(lengths, j + 1))) < lengths.size else 0.0 for j in range(1, k + 1)]


def _drafts(settings: Mapping[str, Any], accepted: int) -> int:
    """Draft tokens per round: ``draft_length``, or the block without its anchor; at least the most ``accepted`` in a step.

    Block drafters on vLLM draft as many tokens as ``block_size`` says, anchor or not. Raises ``InputError`` for settings of
    fewer drafts than were accepted.
    """
    for key, extra in (("draft_length", 0), ("block_size", 1)):
        if (stated := settings.get(key)) is None:
            continue
        value = whole(f"{key} in configuration.json", stated, 1 + extra, LARGEST_K)
        if accepted > value:
            reason = f"Steps of {accepted + 1} tokens accepted {accepted} drafts: the settings are of another run."
            raise InputError(f"{key} in configuration.json", stated, f"at least {accepted}", reason)
        return max(value - extra, accepted)
    return max(accepted, 1)


def _numbers(field: str, table: Any, *, by_length: bool = False) -> dict[Any, float]:
    """A table of numbers by name, or by step length; an entry of null, which had no steps, is left out."""
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise InputError(field, _short(table), "a table of length: number" if by_length else "a table of name: number")
    found: dict[Any, float] = {}
    for key, stated in table.items():
        name = whole(f"{field} (step length)", key, 1, LARGEST_K + 1) if by_length else str(key)
        try:
            value = float("nan") if stated is None else float(stated)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{field} of {key}", _short(stated), "a number") from None
        if math.isinf(value):
            raise InputError(f"{field} of {key}", stated, "a finite number")
        if not math.isnan(value):
            found[name] = value
    return found


def _short(value: Any) -> str:
    return str(value)[:60]


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("specdec_bench file", str(file), "a readable file", str(error.strerror)) from None
    except ValueError as error:
        raise InputError("specdec_bench file", str(file), "JSON", f"It is not: {error}.") from None
    except RecursionError:
        raise InputError("specdec_bench file", str(file), "JSON of a few levels", "It is nested too deeply.") from None
    entries = content if isinstance(content, list) else [content]
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("specdec_bench file", str(file), "an object, or a list with one object per run")
    return entries
