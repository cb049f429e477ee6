"""Every config in tests/data loads, agrees with the reference counts, and keeps the identities."""

import csv

import numpy as np
import pytest
from model_files import CONFIGS, DATA

from specadvisor.model import Architecture, Moe, load_model, rank_weight_bytes, replicated, weight_table

with (DATA / "model_params_computed.csv").open() as lines:
    COMPUTED = {row["model"]: row for row in csv.DictReader(lines)}
with (DATA / "model_params_published.csv").open() as lines:
    PUBLISHED = {row["model"]: row for row in csv.DictReader(lines)}

ROUNDED_NAME = {
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": "the page rounds 31.6 B (the same shape as Nemotron-3-Nano) to 30 B",
}
MODELS: dict[str, Architecture] = {}


def model_of(path) -> Architecture:
    if path.name not in MODELS:
        MODELS[path.name] = load_model(path)
    return MODELS[path.name]


def test_set_is_whole():
    assert len(CONFIGS) == 107
    assert {p.name.removesuffix("_config.json").replace("--", "/", 1) for p in CONFIGS} >= COMPUTED.keys()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name.removesuffix("_config.json"))
def test_config(path):
    model = model_of(path)
    if row := COMPUTED.get(model.name):
        # Rows without a model class rest on that script alone; they are held to the same limit.
        assert model.total_parameters == pytest.approx(int(row["oracle_total"] or row["total"]), rel=1e-3)
        assert model.active_parameters == pytest.approx(int(row["active_no_embed"]), rel=1e-3)
    if (row := PUBLISHED.get(model.name)) and model.name not in ROUNDED_NAME:
        assert model.total_parameters == pytest.approx(1e9 * float(row["total_b"]), rel=0.03)

    rows = [r for r in weight_table(model) if r.component != "mtp"]
    assert sum(r.parameters for r in rows) == model.total_parameters
    assert sum(r.bytes for r in rows) == pytest.approx(model.weight_bytes)
    for tp in (1, 2, 8):
        copies = sum(replicated(model, tp).values())
        assert tp * rank_weight_bytes(model, tp).total == pytest.approx(model.weight_bytes + copies, rel=1e-9)
    assert sum(replicated(model, 1).values()) == 0
    assert model.active_parameters <= model.total_parameters
    assert np.all(np.diff(model.kv_bytes_per_sequence(np.arange(1, 40000, 999))) >= 0)
    for layer in model.layers:
        assert layer.mixer or layer.feed_forward
        if isinstance(layer.feed_forward, Moe):
            assert 1 <= layer.feed_forward.top_k <= layer.feed_forward.experts


EXACT = [row for row in COMPUTED.values() if row["diff"] == "0"]


def test_exact_where_a_class_exists():
    assert len(EXACT) == 77
    for row in EXACT:
        path = next(p for p in CONFIGS if p.name == row["model"].replace("/", "--", 1) + "_config.json")
        assert model_of(path).total_parameters == int(row["oracle_total"]), row["model"]
