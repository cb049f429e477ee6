from __future__ import annotations

import math
import tomllib

import pytest

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError
from specadvisor.hardware import catalogue, datasheet, list_gpus, load_gpu, match_local, power_clock_scale

# FLOP per clock and multiprocessor, fp32 accumulate, from the architecture papers
FLOP_PER_CLOCK = {70: 1024, 75: (512, 1024), 80: 2048, 86: (512, 1024), 87: 2048, 89: (512, 1024), 90: 4096, 120: (512, 1024)}
QUOTED_BELOW_BOOST = {"l40", *(gpu_id for gpu_id in list_gpus() if datasheet(gpu_id).family == "hopper")}


@pytest.mark.parametrize("gpu_id", list_gpus())
def test_every_gpu_file_is_complete_and_consistent(gpu_id: str) -> None:
    path = profiles_dir() / "gpus" / f"{gpu_id}.toml"
    data = tomllib.loads(path.read_text())
    gpu = datasheet(gpu_id)
    memory = data["memory"]
    assert gpu.id == gpu_id == path.stem
    assert gpu.source and gpu.note and gpu.confidence in ("high", "medium", "low")
    assert math.isclose(memory["bus_bits"] * memory["pin_gbit_per_s"] / 8, memory["gb_per_s"], rel_tol=0.03)
    assert math.isclose(gpu.memory_bytes, memory["nominal_gib"] * 2**30, rel_tol=0.07)
    assert 20 <= gpu.peak("bf16") / gpu.memory_bytes_per_s <= 950 or gpu_id == "p40"
    assert gpu.nvlink == ("nvlink_gb_per_s" in data["links"])
    if gpu.sm in FLOP_PER_CLOCK and gpu_id not in QUOTED_BELOW_BOOST:
        rate = gpu.peak("bf16") / gpu.sm_count / gpu.boost_hz
        expected = FLOP_PER_CLOCK[gpu.sm]
        assert min(abs(rate / e - 1) for e in (expected if isinstance(expected, tuple) else (expected,))) < 0.03


def test_53_gpus_with_unique_spellings() -> None:
    assert len(list_gpus()) == 53
    spellings = [s for gpu_id in list_gpus() for s in (gpu_id, *datasheet(gpu_id).aliases)]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("h100_sxm", "h100_sxm"),
        ("H100", "h100_sxm"),
        ("H100-SXM", "h100_sxm"),
        ("RTX 4090", "rtx_4090"),
        ("4090", "rtx_4090"),
        ("NVIDIA GeForce RTX 4090", "rtx_4090"),
        ("GeForce RTX 4090", "rtx_4090"),
        ("dgx-spark", "gb10"),
        ("Tesla V100-SXM2-32GB", "v100_32gb"),
        ("a6000", "rtx_a6000"),
        ("pro_6000_maxq", "rtx_pro_6000_maxq"),
    ],
)
def test_names_in_any_spelling(name: str, gpu_id: str) -> None:
    assert datasheet(name).id == gpu_id


def test_the_name_nvml_prints_is_accepted_for_every_gpu() -> None:
    for gpu_id in list_gpus():
        for name in datasheet(gpu_id).nvml_names:
            if name != "NVIDIA H100":  # also a spelling of h100_sxm
                assert datasheet(name).id == gpu_id


def test_an_exact_id_reads_one_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "other_names", lambda path: pytest.fail("read the other files"))
    catalogue._spellings.cache_clear()
    assert datasheet.__wrapped__("l40s").id == "l40s"


def test_a_misspelt_name_gets_near_misses() -> None:
    with pytest.raises(InputError, match="rtx_4090"):
        load_gpu("rtx_4900")
    with pytest.raises(InputError, match="h100_96gb or h100_sxm"):
        load_gpu("NVIDIA H100")


def test_known_numbers_of_the_h100() -> None:
    gpu = load_gpu("h100_sxm")
    assert gpu.peak("bf16") == 989e12 and gpu.peak("fp8") == 1978e12 and gpu.peak("fp4") == 1978e12
    assert gpu.memory_bytes_per_s == 3.35e12 and gpu.memory_bytes == 81559 * 2**20
    assert gpu.link_bytes_per_s == 450e9 and gpu.nvlink


def test_a_power_limit_lowers_compute_not_bandwidth() -> None:
    full, capped = load_gpu("rtx_3090"), load_gpu("rtx_3090", power_limit_w=200)
    assert capped.memory_bytes_per_s == full.memory_bytes_per_s
    assert 0.4 < capped.peak("bf16") / full.peak("bf16") < 0.8
    assert load_gpu("rtx_3090", power_limit_w=500).clock_scale == 1.0
    assert load_gpu("rtx_3090", clock_hz=1695e6 / 2).clock_scale == pytest.approx(0.5)
    with pytest.raises(InputError, match="watts above"):
        load_gpu("rtx_3090", power_limit_w=50)


def test_the_power_law_agrees_with_its_two_observations() -> None:
    assert power_clock_scale(400, 700) == pytest.approx(489 / 800, abs=0.03)
    assert 0.35 < power_clock_scale(150, 350) / power_clock_scale(300, 350) < 0.55


def test_local_gpus_with_equal_names_are_told_apart_by_memory() -> None:
    assert match_local("NVIDIA RTX PRO 5000 Blackwell", 48935 * 2.0**20).id == "rtx_pro_5000"
    with pytest.raises(InputError, match="rtx_3080_10gb"):
        match_local("NVIDIA GeForce RTX 3080", 12288 * 2.0**20)
    with pytest.raises(InputError, match="one text file"):
        match_local("NVIDIA Future 9000", None)
    assert match_local("NVIDIA GB10", None).id == "gb10"
