"""Read result folders of NVIDIA specdec_bench, the harness of SPEED-Bench (Model-Optimizer, examples/specdec_bench).

Written for specdec_bench 0.1.0 (commit a2fbac7bad8a). Metric files are JSON lists, one entry appended per run; keys and
numbers may be strings. ``Acceptance_Length_Histogram`` counts tokens per step, bonus included, so key 1 is a step that
accepted nothing; only lengths that occurred have keys. The prefill chunk counts as a step of length 1 and a request that
ends inside a block cuts its last step: both lower the acceptance length a little. ``Average_AL`` is a mean over requests,
not over steps: the step-weighted length of the histogram is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specadvisor.acceptance.convert import from_cumulative, from_histogram
from specadvisor.acceptance.survival import Survival
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
    k = _drafts(settings)
    source = f"specdec_bench: {file.name}"
    histogram = _numbers(entry.get("Acceptance_Length_Histogram"), file)
    steps = None
    if histogram:
        k = max(k or 1, max(histogram) - 1)
        survival = from_histogram({**{k + 1: 0.0}, **histogram}, tokens_per_step=True, source=source)
        steps = sum(histogram.values())
    else:
        joint = _numbers(entry.get("Joint_Acceptance_Rate"), file)
        if not joint:
            raise InputError(
                "specdec_bench result", str(file), "an entry with Acceptance_Length_Histogram or Joint_Acceptance_Rate"
            )
        k = max(k or 1, max(joint) - 1, 1)
        survival = from_cumulative(_filled(joint, k), source=source)
    categories = {str(name): float(al) for name, al in (entry.get("Category_AL") or {}).items()}
    kind = KINDS.get(str(settings.get("speculative_algorithm", "")).upper())
    return SpecdecBenchRun(survival.with_notes(BIAS), k, steps, kind, categories, dict(settings))


def _filled(joint: Mapping[int, float], k: int) -> list[float]:
    """P(at least j drafts) for j = 1..k; a length that never occurred has the value of the next one that did."""
    lengths = np.array(sorted(joint))
    values = [joint[int(n)] for n in lengths]
    return [float(values[i]) if (i := int(np.searchsorted(lengths, j + 1))) < lengths.size else 0.0 for j in range(1, k + 1)]


def _drafts(settings: Mapping[str, Any]) -> int | None:
    """Draft tokens per round: ``draft_length``, or the block without its anchor."""
    for key, extra in (("draft_length", 0), ("block_size", 1)):
        value = settings.get(key)
        if value is not None:
            try:
                return int(value) - extra
            except (TypeError, ValueError):
                raise InputError(key, value, "a whole number", "In configuration.json.") from None
    return None


def _numbers(table: Any, file: Path) -> dict[int, float]:
    if table is None:
        return {}
    try:
        return {int(key): float(value) for key, value in dict(table).items()}
    except (TypeError, ValueError):
        raise InputError("specdec_bench result", str(file), "tables of length: number") from None


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("specdec_bench file", str(file), "a readable file", str(error.strerror)) from None
    except ValueError as error:
        raise InputError("specdec_bench file", str(file), "JSON", f"It is not: {error}.") from None
    entries = content if isinstance(content, list) else [content]
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("specdec_bench file", str(file), "an object, or a list with one object per run")
    return entries
