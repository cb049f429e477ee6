"""Shipped models and the family table are complete."""

import re

import pytest

from specadvisor.data_files import profiles_dir
from specadvisor.model import families, list_models, load_model
from specadvisor.model.attention import MIXERS
from specadvisor.model.recurrent import MIXERS as RECURRENT


def test_every_shipped_model_loads_and_has_a_source():
    models = list_models()
    assert len(models) >= 25 and {"qwen3-32b", "deepseek-v3", "gpt-oss-120b", "llama-3.1-8b"} <= {m.name for m in models}
    listed = set(re.findall(r"^\| `([^`]+)`", (profiles_dir() / "models" / "SOURCES.md").read_text(), re.M))
    assert listed == {m.name for m in models}
    assert all(m.active_parameters <= m.total_parameters and m.weight_bytes > 0 for m in models)


def test_names_are_case_blind():
    assert load_model("Qwen3-32B").total_parameters == 32_762_123_264


@pytest.mark.parametrize("name", sorted(families.table()))
def test_row(name):
    row = families.parse(name, families.table())
    assert row.mixer in MIXERS and row.linear in {"", *RECURRENT} and row.blocks in {"pair", "single", "nas"}
    assert row.qk_norm in {"", "head", "full"} and row.bias in {"config", "qkv"}
    assert set(row.names) <= set(families.NAMES)
    assert not row.mtp or set(row.mtp) == {"modules", "layer", "feed_forward"}
