"""Shipped kernel profiles are complete, the user's win, and a broken file is refused with one clear message."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specadvisor.errors import InputError
from specadvisor.hardware import list_gpus, load_gpu
from specadvisor.hardware.kernel_profile import (
    OPERATORS,
    load_kernel_profile,
    profile_to_json,
    read_kernel_profile,
    write_kernel_profile,
)
from specadvisor.kernels import error_band, gemm_s
from specadvisor.kernels.parameters import find_entry

MEASURED = ("a100_sxm_80gb", "h100_sxm", "h200_sxm", "b200_sxm", "l40s", "rtx_pro_6000_server")
WEIGHTS = ("bf16", "fp8", "fp8_block", "int8", "w8a16", "w4a16", "nvfp4", "mxfp4", "q4_k_m", "q8_0")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECADVISOR_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", list_gpus())
def test_every_gpu_has_every_operator_and_format(name):
    gpu = load_gpu(name)
    for engine in ("vllm", "sglang", "tensorrt_llm", "llama_cpp"):
        bands = [error_band(gpu, operator, format, engine) for operator in ("gemm", "moe") for format in WEIGHTS]
        bands += [error_band(gpu, operator, kv, engine) for operator in ("attention", "mla") for kv in ("bf16", "fp8", "q4_0")]
        bands += [
            error_band(gpu, o, "any", engine) for o in ("sparse_attention", "index_logits", "recurrent", "all_reduce", "memory")
        ]
        assert all(0 < median < p90 for median, p90, _ in bands)


@pytest.mark.parametrize("name", MEASURED)
def test_shipped_entries_carry_their_provenance(name):
    entries = read_kernel_profile_of(name).entries
    assert entries
    for entry in entries:
        assert entry.state == "measured"
        assert set(entry.parameters) == set(OPERATORS[entry.operator])
        assert {"source", "data", "rows", "fitted", "error_on"} <= set(entry.provenance)
        assert 0 < entry.median_error <= 0.25 and entry.median_error < entry.p90_error


def read_kernel_profile_of(name):
    from specadvisor.data_files import profiles_dir

    return read_kernel_profile(profiles_dir() / "kernels" / f"{name}.json")


@pytest.mark.parametrize(
    ("gpu", "format", "engine", "state"),
    [
        ("h100_sxm", "bf16", "vllm", "measured"),
        ("h100_pcie", "bf16", "vllm", "sibling"),
        ("h20", "fp8", "sglang", "sibling"),
        ("gh200_96gb", "bf16", "vllm", "sibling"),
        ("b300_sxm", "nvfp4", "sglang", "sibling"),
        ("gb200", "fp8", "vllm", "sibling"),
        ("a100_pcie_80gb", "bf16", "vllm", "sibling"),
        ("l4", "bf16", "vllm", "extrapolated"),
        ("rtx_4090", "fp8", "vllm", "extrapolated"),
        ("rtx_3090", "bf16", "vllm", "extrapolated"),
        ("rtx_5090", "nvfp4", "vllm", "extrapolated"),
        ("gb10", "bf16", "vllm", "extrapolated"),
        ("thor", "nvfp4", "vllm", "extrapolated"),
        ("a100_sxm_80gb", "w4a16", "vllm", "extrapolated"),
        ("h100_sxm", "fp8_block", "vllm", "sibling"),
    ],
)
def test_state_of_a_gpu_without_rows(gpu, format, engine, state):
    assert error_band(gpu, "gemm", format, engine)[2] == state


def test_bands_widen_with_distance():
    measured, sibling, far = (error_band(g, "gemm", "bf16", "vllm") for g in ("h100_sxm", "h100_pcie", "rtx_3090"))
    assert measured[1] < far[1] and sibling[1] < far[1] and sibling[0] < far[0]


def test_another_engines_kernel_is_borrowed_but_not_a_bad_one():
    assert find_entry("h100_sxm", "gemm", "fp8_block", "vllm").engine == "sglang"
    assert find_entry("h100_sxm", "mla", "fp8", "vllm").engine == "tensorrt_llm"
    assert find_entry("h100_sxm", "mla", "fp8", "sglang").engine == "sglang"


def test_the_users_calibration_wins_entry_by_entry(home):
    gpu = load_gpu("h100_sxm")
    shipped = load_kernel_profile(gpu)
    mine = replace(shipped.find("gemm", "bf16", "vllm"), engine="any", median_error=0.01, kernel="cublasLt")
    write_kernel_profile(replace(shipped, entries=(mine,), source="user"))
    profile = load_kernel_profile(gpu)
    assert profile.source == "user"
    assert profile.find("gemm", "bf16", "sglang").median_error == 0.01
    assert profile.find("gemm", "bf16", "sglang").state == "measured"
    assert profile.find("attention", "bf16", "vllm") == shipped.find("attention", "bf16", "vllm")
    assert (home / "kernels" / "h100_sxm.json").is_file()


def test_written_profile_reads_back(tmp_path):
    profile = read_kernel_profile_of("l40s")
    path = write_kernel_profile(profile, tmp_path / "copy.json")
    assert profile_to_json(read_kernel_profile(path)) == profile_to_json(profile)


def test_a_gpu_built_by_hand_gets_its_familys_defaults():
    gpu = replace(load_gpu("rtx_4090"), id="my_card", kernels=None)
    assert gemm_s(gpu, 1, 4096, 4096) > 0
    assert error_band(gpu, "gemm", "bf16", "vllm")[2] == "extrapolated"


def broken(change):
    data = json.loads(profile_to_json(replace(read_kernel_profile_of("a100_sxm_80gb"), source="user")))
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(schema_version=2), "schema_version: 2"),
        (lambda d: d.pop("gpu"), "gpu: 'missing'"),
        (lambda d: d.update(entires=[]), "Did you mean entries"),
        (lambda d: d.update(entries={}), "a list of entries"),
        (lambda d: d["entries"][1].update(operator="gem"), "entry 2: operator: 'gem'"),
        (lambda d: d["entries"][0].update(state="guessed"), "measured, sibling, extrapolated"),
        (lambda d: d["entries"][0]["error"].pop("p90"), "entry 1: error"),
        (lambda d: d["entries"][0]["parameters"].pop("em"), "parameter em: 'missing'"),
        (lambda d: d["entries"][0]["parameters"].update(em="fast"), "parameter em: 'fast'"),
        (lambda d: d["entries"][0]["parameters"].update(em=7), "a number from 0.02 to 1.25"),
        (lambda d: d["entries"][0]["parameters"].update(emm=0.7), "parameter: 'emm'"),
    ],
)
def test_broken_profiles_are_refused(tmp_path, change, says):
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(broken(change)))
    with pytest.raises(InputError) as error:
        read_kernel_profile(path)
    assert says in str(error.value) and "broken.json" in str(error.value)


def test_truncated_and_missing_files(tmp_path):
    path = tmp_path / "cut.json"
    path.write_text('{"schema_version": 1, "gpu"')
    for file in (path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="kernel profile"):
            read_kernel_profile(file)
