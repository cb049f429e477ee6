"""Real drafter configs against the table of shapes counted from them by hand (layers, fusion, head in millions; KV bytes)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specadvisor.drafters import load_drafter
from specadvisor.drafters.config import classify, stated_sizes
from specadvisor.errors import InputError
from specadvisor.model.architecture import Architecture

from .conftest import CONFIGS

# config, kind, layers M, fusion M, sequential head M, head M (of the config's own vocabulary), KV bytes per token
TABLE = """
angelslim-hunyuan-1.8b-eagle3 eagle3 55 12.6 0 66 2048
angelslim-qwen3_dflare dflash 706 0 0 389 28672
angelslim-qwen3_dflash dflash 505 32.8 0 389 20480
deepseek-v3-671b-eagle3 eagle3 1064 154.1 0 229 4096
eagle1-Mixtral_8x7B_config eagle 243 33.6 0 131 16384
eagle1-llama_2_chat_70B_config eagle 856 134.2 0 262 4096
eagle1-vicuna_7B_config eagle 202 33.6 0 131 16384
eagle3-traineagle3-config eagle3 243 50.3 0 131 4096
gemma3-1b-eagle3 eagle3 29 4.0 0 37 1024
glm-5.2-dspark dspark 1447 188.7 79.3 952 20480
gpt-oss-120B-eagle3 eagle3 191 24.9 0 92 2048
gpt-oss-20B-eagle3 eagle3 191 24.9 0 92 2048
inkling-dspark dspark 1447 188.7 102.9 1235 20480
kimi-k3-dspark dspark 1908 256.9 83.9 1174 20480
lfm2.5-1.2b-instruct-dflash dflash 386 21.0 0 134 16384
ling-flash-2.0-eagle3 eagle3 243 50.3 0 131 4096
llama3-70B-ealge3 eagle3 940 201.3 0 262 4096
llama3-8B-eagle3 eagle3 243 50.3 0 131 4096
llama4-scout-17B-16E-eagle3 eagle3 603 78.6 0 164 4096
longcat-flash-dflash dflash 1447 188.7 0 805 20480
longcat-flash-eagle3 eagle3 428 113.2 0 805 8192
phi4-eagle3 eagle3 380 78.6 0 164 5120
qwen2.5-vl-32b-eagle3 eagle3 357 78.6 0 164 2048
qwen3-235B-A22B-eagle3 eagle3 411 50.3 0 131 2048
qwen3-30B-A3B-eagle3.1 eagle3_1 105 12.6 0 66 2048
qwen3-30B-A3B-eagle3 eagle3 105 12.6 0 66 2048
qwen3-32b-eagle3 eagle3 540 78.6 0 164 4096
qwen3-4b-dflash dflash 505 32.8 0 389 20480
qwen3-4b-dspark dspark 505 32.8 77.8 389 20480
qwen3-8b-dflash dflash 965 83.9 0 622 20480
qwen3-8b-domino domino 965 83.9 55.9 622 20480
qwen3-8b-dspark dspark 965 83.9 77.8 622 20480
qwen3-8b-eagle3 eagle3 218 50.3 0 131 4096
qwen3-8b-peagle p_eagle 797 50.3 0 131 16384
qwen3-coder-480B-A35B-instruct-eagle3 eagle3 554 113.2 0 197 4096
qwen3-next-80b-a3b-eagle3 eagle3 130 12.6 0 66 2048
qwen3.5-35b-a3b-dflash dflash 453 21.0 0 509 16384
qwen3.5-35b-a3b-eagle3 eagle3 130 12.6 0 66 2048
qwen3.6-27b-dflash dflash 1599 131.1 0 1271 20480
qwen3.6-27b-domino-full-attention domino 1599 131.1 84.0 1271 20480
qwen3.6-27b-dspark dspark 1599 131.1 127.1 1271 20480
torchspec-dflash_draft_config dflash 965 83.9 0 622 20480
torchspec-kimi_k25_eagle3 eagle3 675 154.1 0 1174 32768
torchspec-kimi_k25_eagle3_mla eagle3 513 154.1 0 1174 1152
torchspec-minimax_m25_eagle3 eagle3 217 28.3 0 615 24576
torchspec-qwen3_8b_eagle3_mla eagle3 199 50.3 0 622 1152
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_real_config_counts(row: list[str], qwen8b: Architecture) -> None:
    name, kind = row[0], row[1]
    layers_m, fusion_m, sequential_m, head_m, kv = (float(v) for v in row[2:])
    drafter = load_drafter(str(CONFIGS / f"{name}.json"), qwen8b)
    assert drafter.kind == kind
    matrices = sum(la.count * m.parameters for la in drafter.layers for m in la.linears)
    assert matrices / 1e6 == pytest.approx(layers_m, abs=0.51)
    assert sum(m.parameters for m in (*drafter.inputs, *drafter.step_linears)) / 1e6 == pytest.approx(fusion_m, abs=0.051)
    assert sum(m.parameters for m in drafter.extra) / 1e6 == pytest.approx(sequential_m, abs=0.06)
    assert drafter.shape is not None
    assert drafter.shape.hidden * drafter.shape.draft_vocab / 1e6 == pytest.approx(head_m, abs=0.51)
    assert drafter.kv_bytes_per_token == kv


def test_all_configs_are_covered() -> None:
    others = {"modelopt-CR2_eagle_config", "apertus-v1.5-8b-dspark", "apertus-v1.5-8b-eagle3_1", "devstral-24b-eagle3",
              "eagle1-llama3-8b", "google--gemma-4-31B-it-assistant_config", "meta-models--Muse-Glimmer-30B-assistant_config",
              "qwen2-5-vl-7b-eagle3", "qwen3-4b-eagle3", "qwen3-coder-30B-A3B-instruct-eagle3", "qwen3.5-4b-dflash",
              "qwen3.8-27b-dflash2", "radixark-qwen3.8-27b-dspark"}  # fmt: skip
    assert {path.stem for path in CONFIGS.glob("*.json")} == {row[0] for row in ROWS} | others


@pytest.mark.parametrize(
    ("name", "kind"),
    [("qwen3.8-27b-dflash2", "dflash2"), ("google--gemma-4-31B-it-assistant_config", "mtp"), ("eagle1-llama3-8b", "eagle"),
     ("meta-models--Muse-Glimmer-30B-assistant_config", "dflash"), ("modelopt-CR2_eagle_config", "eagle3"),
     ("radixark-qwen3.8-27b-dspark", "dspark")],
)  # fmt: skip
def test_kind_is_read_off_the_config(name: str, kind: str) -> None:
    assert classify(json.loads((CONFIGS / f"{name}.json").read_text())) == kind


def test_fragment_overrides_the_usual_shape(qwen8b: Architecture) -> None:
    drafter = load_drafter(str(CONFIGS / "modelopt-CR2_eagle_config.json"), qwen8b)
    assert drafter.shape is not None
    assert (drafter.shape.hidden, drafter.shape.draft_vocab, drafter.shape.intermediate) == (4096, 32000, 12288)


def test_block_limits_the_draft_length(qwen8b: Architecture) -> None:
    assert load_drafter(str(CONFIGS / "qwen3-8b-dflash.json"), qwen8b).k_max == 15
    assert load_drafter(str(CONFIGS / "qwen3-8b-dspark.json"), qwen8b).k_max == 7


def test_windows_follow_layer_types() -> None:
    text = json.loads((CONFIGS / "qwen3.6-27b-dflash.json").read_text())
    assert stated_sizes(text)["windows"] == (2048, 2048, 2048, 2048, 0)
    assert "windows" not in stated_sizes(json.loads((CONFIGS / "gemma3-1b-eagle3.json").read_text()))


@pytest.mark.parametrize("value", ["text", -1, 0, True, 1.5, 2**40])
def test_nonsense_sizes_are_refused(value: object, qwen8b: Architecture, tmp_path: Path) -> None:
    config = json.loads((CONFIGS / "qwen3-8b-eagle3.json").read_text()) | {"intermediate_size": value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="intermediate"):
        load_drafter(str(tmp_path), qwen8b)


def test_unreadable_files_are_refused(qwen8b: Architecture, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"hidden_size": 40')
    (tmp_path / "list.json").write_text("[]")
    for path in ("cut.json", "list.json", "absent.json"):
        with pytest.raises(InputError):
            load_drafter(str(tmp_path / path), qwen8b)
    with pytest.raises(InputError, match="Did you mean eagle3"):
        load_drafter("eagle33", qwen8b)


def test_a_kind_that_the_file_contradicts_is_refused(qwen8b: Architecture) -> None:
    block, head = CONFIGS / "qwen3-8b-dflash.json", CONFIGS / "qwen3-8b-eagle3.json"
    for text in (f"eagle3:{block}", f"dflash:{head}", f"draft_model:{head}"):
        with pytest.raises(InputError, match="names the kind"):
            load_drafter(text, qwen8b)
    assert load_drafter(f"dflash:{block}", qwen8b).kind == "dflash"
    assert load_drafter(f"eagle2:{CONFIGS / 'eagle1-llama3-8b.json'}", qwen8b).kind == "eagle2"


@pytest.mark.parametrize(
    ("name", "trained"),
    [("llama3-8B-eagle3", 2048), ("qwen3-8b-eagle3", None), ("torchspec-kimi_k25_eagle3", 262144)],
)
def test_trained_context(name: str, trained: int | None, qwen8b: Architecture) -> None:
    """Stated below the target's own; copied from the target: not known; stretched by YaRN: as far as that."""
    assert qwen8b.max_context == 40960
    drafter = load_drafter(str(CONFIGS / f"{name}.json"), qwen8b)
    assert drafter.trained_context == trained


def test_a_window_limits_the_keys_seen(qwen8b: Architecture) -> None:
    from specadvisor.drafters.modifiers import parse_modifier

    drafter = load_drafter(str(CONFIGS / "llama3-8B-eagle3.json"), qwen8b)
    assert drafter.keys_seen(8192.0) == 8192.0
    assert drafter.with_modifiers([parse_modifier("draft-window=2048")]).keys_seen(8192.0) == 2048.0
    mixed = load_drafter(str(CONFIGS / "qwen3.6-27b-dflash.json"), qwen8b)
    assert mixed.keys_seen(8192.0) == 8192.0
