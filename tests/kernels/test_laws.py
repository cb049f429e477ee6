"""Hand-counted times and properties that hold for every shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specadvisor import kernels
from specadvisor.errors import InputError
from specadvisor.hardware import load_gpu
from specadvisor.hardware.kernel_profile import KernelEntry, KernelProfile
from specadvisor.kernels.gemm import norm_sum
from specadvisor.kernels.parameters import find_entry
from specadvisor.serving.attention import AttentionBackend

GPUS = (
    "a100_sxm_80gb",
    "h100_sxm",
    "h200_sxm",
    "b200_sxm",
    "l40s",
    "rtx_pro_6000_server",
    "rtx_4090",
    "b300_sxm",
    "gb10",
    "v100_32gb",
)
BACKENDS = (
    AttentionBackend("kernel", (128,)),
    AttentionBackend("kernel", tile_rows=(16, 64, 128)),
    AttentionBackend("kernel", tile_rows=(8, 16, 32, 64, 128), whole_tokens=True),
    AttentionBackend("kernel", tile_rows=(16,), whole_tokens=True, splits_kv_multi_query=False),
    AttentionBackend("kernel", tile_rows=(64,), packs=False, splits_kv_multi_query=False),
    AttentionBackend("kernel", tile_rows=(64,), per_token=True),
)
gpus, sizes = st.sampled_from(GPUS), st.integers(1, 20_000)
many = settings(max_examples=60, deadline=None)


def plain_gpu(**parameters: float):
    """A GPU of round numbers: 1 TB/s, 100 TFLOP/s, 100 SMs, with one hand-made gemm entry."""
    gpu = load_gpu("h100_sxm")
    entry = KernelEntry("gemm", "bf16", "any", parameters, "measured", 0.05, 0.15)
    profile = KernelProfile("round", (entry,))
    return replace(gpu, memory_bytes_per_s=1e12, peaks={"bf16": 1e14}, sm_count=100, boost_hz=1e9, kernels=profile)


R4 = {"step": 1.0, "wave": 0.3, "norm": 4.0, "jump": 1.0, "row_cycles": 0.0, "row_limit": 8.0, "wide_factor": 1.0}


def test_gemm_counted_by_hand():
    """M 1, N 1024, K 2048: 4.194 MB of weights, 4 kB in, 2 kB out; 8 tiles on 100 SMs; 16 rows padded."""
    gpu = plain_gpu(t0_s=5e-6, em=0.8, ec=0.5, tk_s=1e-6, **R4)
    memory = (1024 * 2048 * 2 + 2048 * 2 + 1024 * 2) / 1e12 / 0.8
    compute = 2 * 16 * 1024 * 2048 / 1e14 / 0.5 * (100 / 8) ** 0.3
    expected = 5e-6 + 2e-6 + (memory**4 + compute**4) ** 0.25
    assert kernels.gemm_s(gpu, 1, 1024, 2048) == pytest.approx(expected)
    assert kernels.gemm_s(gpu, 1, 1024, 2048, floor_scale=0.0) == pytest.approx(expected - 5e-6)


def test_unpacking_costs_per_row_then_another_kernel_runs():
    gpu = plain_gpu(t0_s=1e-6, em=1.0, ec=1.0, tk_s=1e-10, **{**R4, "row_cycles": 0.1, "wide_factor": 2.0})
    gpu = replace(gpu, peaks={"bf16": 1e17})
    one, two, eight, nine = kernels.gemm_s(gpu, [1, 2, 8, 9], 4096, 4096)
    per_row = 0.1 * 4096 * 4096 / (100 * 1e9)
    assert two - one == pytest.approx(per_row, rel=0.01)
    assert eight - one == pytest.approx(7 * per_row, rel=0.01)
    assert nine - 1e-6 == pytest.approx(2 * (one - 1e-6), rel=0.02)


def test_norm_sum_is_between_maximum_and_sum():
    a, b = np.array([1.0, 3.0, 2.0]), np.array([1.0, 4.0, 0.0])
    assert norm_sum(a, b, 1.0) == pytest.approx(a + b)
    assert norm_sum(a, b, 2.0) == pytest.approx(np.hypot(a, b))


def test_gguf_verify_on_an_rtx_3090():
    """Published llama.cpp sweeps: 0.2 of the time per extra row at 4 bits, less at more bits, cheaper again past 8 rows."""
    rows = np.array([1, 2, 8, 9])
    four = kernels.gemm_s("rtx_3090", rows, 13824, 5120, "q4_k_m", "llama_cpp")
    eight = kernels.gemm_s("rtx_3090", rows, 13824, 5120, "q8_0", "llama_cpp")
    assert four[1] / four[0] == pytest.approx(1.20, abs=0.05)
    assert eight[1] / eight[0] < four[1] / four[0]
    assert four[3] < four[2]


def test_recurrent_reads_one_state_and_writes_one_per_token():
    p = find_entry("h100_sxm", "recurrent", "any", "vllm").parameters
    one, four = kernels.recurrent_s("h100_sxm", 32, [1, 4], 2 * 2**20)
    assert four - one == pytest.approx(3 * p["ts_s"] + 3 * 32 * 2 * 2**20 / 3.35e12 / p["em"])


def test_all_reduce_of_one_rank_is_free():
    times = kernels.all_reduce_s("h100_sxm", 16_384, [1, 2, 8])
    assert times[0] == 0.0 and 0 < times[1] < times[2] < 1e-5


def test_sparse_attention_depends_on_tokens_only():
    one_by_eight = kernels.sparse_attention_s("h200_sxm", 64, 8, 32_768, 64, 2048, engine="sglang")
    eight_by_one = kernels.sparse_attention_s("h200_sxm", 512, 1, 32_768, 64, 2048, engine="sglang")
    assert one_by_eight == pytest.approx(eight_by_one)
    flat = kernels.sparse_attention_s("h200_sxm", [1, 128, 264], 1, 32_768, 64, 2048, engine="sglang")
    assert flat[0] == pytest.approx(flat[1], rel=0.02) and flat[2] == pytest.approx(2 * flat[1], rel=0.15)
    with_indexer = kernels.sparse_attention_s("h200_sxm", 1, 1, [4096, 131_072], 64, 2048, indexer_heads=64, indexer_dim=128)
    assert with_indexer[1] > with_indexer[0]


def test_arrays_broadcast():
    tokens = np.array([[1], [2], [4]]) * np.array([1, 8, 64, 256])
    assert kernels.gemm_s("h100_sxm", tokens, 4096, 4096).shape == (3, 4)
    times = kernels.attention_s("h100_sxm", np.ones((1, 4, 1)), np.ones((3, 1, 1)), np.ones(5) * 1024, 32, 8, 128)
    assert times.shape == (3, 4, 5)
    assert kernels.moe_s("h100_sxm", tokens, 2048, 768, 128, 8, routing=0.8).shape == (3, 4)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: kernels.gemm_s("h100_sxm", -1, 128, 128), "m"),
        (lambda: kernels.gemm_s("h100_sxm", "many", 128, 128), "m"),
        (lambda: kernels.gemm_s("h100_sxm", 1, 128, 128, "fp7"), "weight format"),
        (lambda: kernels.gemm_s("h1000", 1, 128, 128), "gpu"),
        (lambda: kernels.gemm_s("h100_sxm", 1, 128, 128, "bf16", "vlm"), "engine"),
        (lambda: kernels.attention_s("h100_sxm", 1, 0, 128, 8, 8, 128), "query_tokens"),
        (lambda: kernels.attention_s("h100_sxm", 1, 1, 128, 8, 8, 128, "fp5"), "KV format"),
        (lambda: kernels.moe_s("h100_sxm", 1, 128, 128, 8, 9), "top_k"),
        (lambda: kernels.moe_s("h100_sxm", 1, 128, 128, 8, 2, routing="zipf"), "routing"),
        (lambda: kernels.gemm_s(None, 1, 128, 128), "gpu"),
        (lambda: kernels.gemm_s("h100_sxm", [1.0, np.nan], 128, 128), "m"),
        (lambda: kernels.gemm_s("h100_sxm", 1, 128, np.inf), "k_in"),
        (lambda: kernels.attention_s("h100_sxm", 1, 1, np.inf, 8, 8, 128), "context"),
        (lambda: kernels.attention_s("h100_sxm", 1, 1, 128, 8, 8, 0), "head_dim"),
        (lambda: kernels.attention_s("h100_sxm", 1, 1, 128, 8, 8, 128, value_dim=0), "value_dim"),
        (lambda: kernels.mla_s("h100_sxm", np.inf, 1, 128, 16), "batch"),
        (lambda: kernels.mla_s("h100_sxm", 1, 1, 128, 0), "heads"),
        (lambda: kernels.moe_s("h100_sxm", np.inf, 128, 128, 8, 2), "tokens"),
        (lambda: kernels.moe_s("h100_sxm", 1, 0, 128, 8, 2), "hidden"),
        (lambda: kernels.moe_s("h100_sxm", 1, 128, 128, 8, 2, ep=0), "ep"),
        (lambda: kernels.moe_s("h100_sxm", 1, 128, 128, np.inf, 2), "experts"),
        (lambda: kernels.distinct_experts(4, 0, 2), "experts"),
        (lambda: kernels.distinct_experts(4, 8, 0), "top_k"),
        (lambda: kernels.distinct_experts([4, np.nan], 8, 2), "tokens"),
        (lambda: kernels.all_reduce_s("h100_sxm", np.inf, 8), "message_bytes"),
        (lambda: kernels.memory_pass_s("h100_sxm", np.nan), "bytes"),
    ],
)
def test_bad_input_names_the_field(call, field):
    with pytest.raises(InputError) as error:
        call()
    assert error.value.field == field


def rises(times: np.ndarray) -> bool:
    return bool((np.diff(times) >= -1e-9 * times[:-1]).all())


@many
@given(
    gpus,
    sizes,
    sizes,
    st.sampled_from(["bf16", "fp8", "fp8_block", "nvfp4", "int8", "w8a16", "w4a16"]),
    st.sampled_from(["vllm", "sglang", "tensorrt_llm"]),
)
def test_gemm_never_falls_with_rows(gpu, n, k, format, engine):
    assert rises(kernels.gemm_s(gpu, np.arange(1, 1100), n, k, format, engine))


@many
@given(
    gpus,
    st.sampled_from(BACKENDS),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 3, 5, 8, 16]),
    st.sampled_from([64, 128, 192, 256]),
    st.sampled_from(["bf16", "fp8"]),
    st.sampled_from([0, 128, 4096]),
)
def test_attention_never_falls(gpu, backend, kv_heads, group, dim, kv_format, window):
    def seconds(batch, query, context):
        return kernels.attention_s(
            gpu, batch, query, context, group * kv_heads, kv_heads, dim, kv_format, window=window, backend=backend
        )

    assert rises(seconds(4, np.arange(1, 40), 3000))
    assert rises(seconds(np.arange(1, 300), 5, 3000))
    assert rises(seconds(4, 5, np.arange(1, 20_000, 37)))


@many
@given(gpus, st.sampled_from(BACKENDS), st.integers(1, 128), st.sampled_from(["bf16", "fp8"]))
def test_mla_never_falls(gpu, backend, heads, kv_format):
    assert rises(kernels.mla_s(gpu, 8, np.arange(1, 24), 5000, heads, kv_format, backend=backend))
    assert rises(kernels.mla_s(gpu, np.arange(1, 300), 3, 5000, heads, kv_format, backend=backend))


@many
@given(
    gpus,
    st.sampled_from([(8, 2), (128, 8), (256, 8), (512, 10)]),
    st.sampled_from(["bf16", "fp8_block", "mxfp4"]),
    st.sampled_from(["uniform", "balanced", 0.7]),
)
def test_moe_never_falls_with_tokens(gpu, shape, format, routing):
    assert rises(kernels.moe_s(gpu, np.arange(1, 600), 2048, 1024, *shape, format, routing=routing))


@many
@given(gpus, st.integers(1, 8))
def test_small_operators_never_fall(gpu, ranks):
    assert rises(kernels.recurrent_s(gpu, 16, np.arange(1, 20), 2**20))
    assert rises(kernels.all_reduce_s(gpu, np.geomspace(1e3, 1e9, 200), ranks))
    assert rises(kernels.memory_pass_s(gpu, np.geomspace(1e3, 1e9, 200)))
    assert rises(kernels.sparse_attention_s(gpu, np.arange(1, 700), 2, 9000, 64, 2048, indexer_heads=64, indexer_dim=128))


@many
@given(gpus, st.integers(1, 1024), sizes, sizes, st.floats(1.0, 3.0))
def test_more_bandwidth_and_peak_is_never_slower(name, m, n, k, factor):
    gpu = load_gpu(name)
    faster = replace(
        gpu, memory_bytes_per_s=gpu.memory_bytes_per_s * factor, peaks={f: p * factor for f, p in gpu.peaks.items()}
    )
    assert kernels.gemm_s(faster, m, n, k, "fp8") <= kernels.gemm_s(gpu, m, n, k, "fp8") * (1 + 1e-12)
    assert kernels.attention_s(faster, m, 4, n, 32, 8, 128) <= kernels.attention_s(gpu, m, 4, n, 32, 8, 128) * (1 + 1e-12)


def test_a_million_shapes_take_half_a_second():
    import time

    rng = np.random.default_rng(0)
    m, (n, k) = rng.integers(1, 1025, 1_000_000), rng.integers(1024, 16385, (2, 1_000_000))
    started = time.process_time()
    kernels.gemm_s("h100_sxm", m, n, k, "fp8")
    assert time.process_time() - started < 1.0


def test_a_gpu_without_a_link_has_no_second_rank():
    assert kernels.all_reduce_s("thor", 1e6, 1) == 0.0
    with pytest.raises(InputError, match="thor has no link"):
        kernels.all_reduce_s("thor", 1e6, 2)
