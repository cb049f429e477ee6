"""One clear error for each way a config can be wrong."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_files import CONFIGS, TINY_LLAMA, config_path, written

from specadvisor.errors import InputError, MissingDependency
from specadvisor.model import Architecture, load_model


def message(source) -> str:
    with pytest.raises(InputError) as caught:
        load_model(source)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_missing_file_suggests_shipped_names():
    assert "qwen3-32b" in message("qwen3-33b")
    assert "config.json" in message("/nowhere/config.json")


def test_empty_folder(tmp_path):
    assert "config.json" in message(tmp_path)


def test_truncated_json(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(config_path("Qwen/Qwen3-8B").read_text()[:200])
    assert "line" in message(path) and "config.json" in message(path)


def test_json_that_is_no_object(tmp_path):
    assert "list" in message(written(tmp_path, [1, 2]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "large"), ("hidden_size", 10**9), ("num_hidden_layers", 0), ("num_hidden_layers", -3),
        ("num_attention_heads", 1.5), ("vocab_size", None), ("intermediate_size", True), ("num_key_value_heads", [8]),
        ("layer_types", ["full_attention"]), ("layer_types", ["full_attention", "telepathy"]), ("quantization_config", "fp8"),
    ],
)  # fmt: skip
def test_bad_value_is_named(tmp_path, key, value):
    assert key in message(written(tmp_path, {**TINY_LLAMA, key: value}))


def test_unknown_family_names_neighbours_and_missing_keys(tmp_path):
    text = message(written(tmp_path, {"model_type": "qwen33", "hidden_size": 8, "num_hidden_layers": 2}))
    assert "qwen3" in text and "num_attention_heads" in text and "vocab_size" in text and "families.toml" in text


def test_new_name_for_a_known_shape_is_one_row(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    path = written(tmp_path, {**TINY_LLAMA, "model_type": "brandnew"})
    message(path)
    (tmp_path / "families.toml").write_text('brandnew = { like = "qwen3" }\n')
    from specadvisor.model import families

    families.rows.cache_clear()
    model = load_model(path)
    assert model.total_parameters == load_model(written(tmp_path, {**TINY_LLAMA, "model_type": "qwen3"})).total_parameters


@pytest.mark.parametrize(("row", "complaint"), [('{ like = "nothing" }', "like"), ("{ colour = 3 }", "colour"), ("{", "TOML")])
def test_bad_row(tmp_path, monkeypatch, row, complaint):
    from specadvisor.model import families

    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    (tmp_path / "families.toml").write_text(f"odd = {row}\n")
    families.rows.cache_clear()
    assert complaint in message(written(tmp_path, {**TINY_LLAMA, "model_type": "odd"}))


def test_hub_names():
    assert "hf:org/name" in message("hf:qwen3")


def test_missing_hub_package_gives_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingDependency, match="pip install"):
        load_model("hf:Qwen/Qwen3-8B")


def test_hub_model_reads_both_files(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    names = {"config.json": "_config.json", "hf_quant_config.json": "_hf_quant_config.json"}
    folder = config_path("x/y").parent
    monkeypatch.setattr(hub, "hf_hub_download", lambda repo, file: str(folder / (repo.replace("/", "--") + names[file])))
    model = load_model("hf:nvidia/Llama-3.1-70B-Instruct-FP8")
    assert (model.name, model.weight_format, model.kv_format) == ("nvidia/Llama-3.1-70B-Instruct-FP8", "fp8", "fp8")


def test_unreachable_hub_is_one_clear_error(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def fail(repo, file):
        raise OSError("no route to host\nsecond line")

    monkeypatch.setattr(hub, "hf_hub_download", fail)
    assert "no route to host" in message("hf:Qwen/Qwen3-8B")


SEEDS = [json.loads(p.read_text()) for p in CONFIGS if p.stat().st_size < 8000]
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(), st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_an_input_error_or_a_model(tmp_path, data):
    config = json.loads(json.dumps(data.draw(st.sampled_from(SEEDS))))
    place = config
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(JUNK)
        break
    try:
        model = load_model(written(tmp_path, config))
    except InputError:
        return
    assert isinstance(model, Architecture) and model.total_parameters > 0 and model.weight_bytes > 0
