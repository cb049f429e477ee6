from __future__ import annotations

import tomllib

import numpy as np
import pytest

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.hardware import datasheet, list_gpus
from specadvisor.ids import DRAFTERS, ENGINES
from specadvisor.serving import load_engine, version_key
from specadvisor.serving.facts import STATES


@pytest.mark.parametrize("engine_id", ENGINES)
def test_every_engine_file_is_complete(engine_id: str) -> None:
    engine = load_engine(engine_id)
    data = tomllib.loads((profiles_dir() / "engines" / f"{engine_id}.toml").read_text())
    assert engine.id == engine_id and engine.versions and engine.version
    for name, fact in engine.facts.items():
        assert fact.state in STATES and fact.source, name
        assert fact.state != "fitted" or "benchmarks/" in fact.source, name
    for table in ("attention", "admission"):
        assert all(row["source"] for row in data.get(table, ())), table
    assert data["graphs"]["source"] and data["token_budget"]["source"]
    assert all(data[table]["source"] for table in ("slots", "states") if table in data)
    assert set(engine.drafters) <= set(DRAFTERS)
    assert all(bool(f.since or f.until) == bool(f.versions_source) for f in engine.drafters.values())
    for gpu in map(datasheet, list_gpus()):
        for head_dim in (64, 80, 128, 192, 256, 512):
            assert engine.attention_backend(gpu, head_dim).source
        assert engine.attention_backend(gpu, 576, mla=True).source and engine.attention_backend(gpu, 576, sparse=True).per_token
        assert engine.max_requests(gpu, True) >= 1 and engine.max_requests(gpu) >= 1 and engine.token_budget(gpu) > 0


def test_admission_defaults() -> None:
    vllm, sglang = load_engine("vllm"), load_engine("sglang")
    assert [vllm.max_requests(datasheet(g)) for g in ("h100_sxm", "a100_sxm_80gb", "gb10", "rtx_4090")] == [1024, 256, 256, 256]
    assert sglang.max_requests(datasheet("h100_sxm"), speculating=True) == 48
    assert sglang.max_requests(datasheet("h100_sxm")) > 48
    assert [vllm.token_budget(datasheet(g)) for g in ("b200_sxm", "h200_sxm", "rtx_4090")] == [16384, 8192, 2048]


def test_drafts_have_to_fit_the_token_budget() -> None:
    vllm = load_engine("vllm")
    gpu = datasheet("rtx_4090")
    assert vllm.budget_requests(gpu, "dflash", [3, 15]).tolist() == [2048 // 4, 2048 // 16]
    for unbounded in (vllm.tuned(512), load_engine("sglang")):
        assert unbounded.budget_requests(gpu, "dflash", 15) == np.inf


def test_rows_of_the_token_budget_by_the_engines_table() -> None:
    vllm = load_engine("vllm")
    kinds = ("eagle3", "mtp", "ngram", "dflash", "dspark", "draft_model", "pard", "p_eagle")
    beside = {kind: float(vllm.budget_rows(kind, 4)) - 5 for kind in kinds}
    assert beside == {
        "eagle3": 0, "mtp": 0, "ngram": 0, "dflash": 0, "dspark": 0, "draft_model": 1, "pard": 4, "p_eagle": 3,
    }  # fmt: skip
    assert [float(vllm.budget_rows(kind, 1, 4)) for kind in ("eagle3", "dflash", "pard")] == [2, 5, 6]


def test_recurrent_states_of_a_request() -> None:
    vllm, sglang = load_engine("vllm").states, load_engine("sglang").states
    assert [float(vllm.copies(k, k > 0)) for k in (0, 3)] == [1, 4]
    assert [float(sglang.copies(k, k > 0)) for k in (0, 3)] == [5, 5 + 4]


def test_drafter_support_follows_the_version() -> None:
    assert load_engine("vllm").supports("eagle-3").method == "eagle3"
    removed = load_engine("vllm").supports("medusa")
    assert not removed.supported and "removed" in removed.note
    assert load_engine("vllm", "0.10.1").supports("medusa").supported
    early = load_engine("vllm", "v0.19.0").supports("dflash")
    assert not early.supported and "0.20" in early.note
    assert not load_engine("llama_cpp").supports("hydra").supported
    assert load_engine("trtllm").supports("suffix").method == "SA"


def test_a_version_that_names_no_release_counts_as_the_one_read() -> None:
    nightly = load_engine("vllm", "0.1.dev13107+ge1a34c3a5")
    assert nightly.version == load_engine("vllm").version and nightly.notes != load_engine("vllm").notes
    assert [version_key(v) for v in ("v0.33.0", "b11223", "1.4.0rc4", "master c060ca9", "0.27.2rc0")] == [
        (0, 33, 0), (11223,), (1, 4, 0), (), (0, 27, 2),
    ]  # fmt: skip


def test_unknown_engine() -> None:
    with pytest.raises(InputError, match="Did you mean vllm"):
        load_engine("vlm")
