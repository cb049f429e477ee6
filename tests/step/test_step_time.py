from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specadvisor import kernels
from specadvisor.hardware import load_gpu
from specadvisor.model.architecture import Attention, Layer, Linear
from specadvisor.step import Deployment, StepTime, layers_time, linear_time, target_step
from specadvisor.step.deployment import BENCHMARKED
from specadvisor.step.target import padded_rows

from .parts import attention_layer, moe_layer, recurrent_layer

LOADS = st.tuples(st.integers(1, 64), st.integers(1, 9), st.integers(16, 20_000))
LAYERS = {
    "dense": attention_layer(),
    "moe": moe_layer(),
    "recurrent": recurrent_layer(),
    "windowed": attention_layer(window=128),
}


def test_components_broadcast_only_in_the_total() -> None:
    time = StepTime({"gemm": np.ones((2, 3, 1)), "attention": np.ones((2, 3, 4))})
    assert time.total_s.shape == (2, 3, 4)
    assert time["gemm"].shape == (2, 3, 1)
    assert time["moe"] == 0.0


def test_adding_and_scaling_keep_every_component() -> None:
    time = (StepTime({"gemm": np.array(1.0)}) + StepTime({"gemm": np.array(2.0), "host": np.array(5.0)})).scaled(2.0)
    assert (time["gemm"], time["host"], time.total_s) == (6.0, 10.0, 16.0)


def test_fused_matrices_run_as_one_gemm(deploy) -> None:
    deployment = deploy(sustained_compute=1.0)
    linears = attention_layer().linears
    qkv = kernels.gemm_s(deployment.gpu, 8.0, 512, 256, "bf16", "vllm", floor_scale=0.3)
    out = kernels.gemm_s(deployment.gpu, 8.0, 256, 256, "bf16", "vllm", floor_scale=0.3)
    time = linear_time(deployment, [m for m in linears if m.name in "qkvo"], 8.0)
    assert time["gemm"] == pytest.approx(qkv + out)


def test_plain_decoding_is_the_sum_of_its_operators(deploy) -> None:
    deployment = deploy(attention_layer(1), sustained_compute=1.0)
    gpu, floor = deployment.gpu, 0.3
    shapes = ((512, 256), (256, 256), (1024, 256), (256, 512))
    gemm = sum(kernels.gemm_s(gpu, 4.0, n, k, floor_scale=floor) for n, k in shapes)
    backend = deployment.serving.attention_backend(gpu, 64)
    attention = kernels.attention_s(gpu, 4.0, 1.0, 1000.0, 4, 2, 64, backend=backend, floor_scale=floor)
    time = target_step(deployment, 4, 1, 1000)
    assert time["gemm"] == pytest.approx(gemm)
    assert time["attention"] == pytest.approx(attention)
    assert time["head"] == pytest.approx(kernels.gemm_s(gpu, 4.0, 1000, 256, floor_scale=floor))
    assert time.total_s == pytest.approx(sum(float(v) for v in time.components.values()))


@pytest.mark.parametrize("kind", LAYERS)
@settings(max_examples=25, deadline=None)
@given(load=LOADS, more=LOADS)
def test_never_faster_with_more_work(deploy, kind: str, load: tuple[int, int, int], more: tuple[int, int, int]) -> None:
    deployment = deploy(LAYERS[kind])
    larger = tuple(a + b for a, b in zip(load, more, strict=True))
    base = target_step(deployment, *load).total_s
    for axis in range(3):
        grown = [larger[i] if i == axis else load[i] for i in range(3)]
        assert target_step(deployment, *grown).total_s >= base * (1 - 1e-9)


@pytest.mark.parametrize("kind", LAYERS)
def test_more_bandwidth_and_peak_are_never_slower(deploy, kind: str) -> None:
    plain: Deployment = deploy(LAYERS[kind])
    gpu = plain.gpu
    peaks = {name: 1.5 * peak for name, peak in gpu.peaks.items()}
    better = replace(plain, gpu=replace(gpu, peaks=peaks, memory_bytes_per_s=1.5 * gpu.memory_bytes_per_s))
    batch, query, context = np.array([1, 8, 64])[:, None, None], np.array([1, 4, 8])[None, :, None], np.array([100.0, 30_000.0])
    assert np.all(target_step(better, batch, query, context).total_s <= target_step(plain, batch, query, context).total_s)


def test_a_grid_equals_its_points(deploy) -> None:
    deployment = deploy(attention_layer(2), moe_layer(1), recurrent_layer(1))
    k, batch, context = np.array([0, 1, 5]), np.array([1, 7, 60]), np.array([100, 9000])
    grid = target_step(deployment, batch[None, :, None], k[:, None, None] + 1, context[None, None, :]).total_s
    for index in np.ndindex(grid.shape):
        point = target_step(deployment, batch[index[1]], k[index[0]] + 1, context[index[2]]).total_s
        assert grid[index] == pytest.approx(float(point), rel=1e-12)


def test_costs_of_matrices_do_not_expand_over_the_context(deploy) -> None:
    time = target_step(deploy(), np.ones((1, 5, 1)), np.ones((3, 1, 1)), np.full((1, 1, 7), 64.0))
    assert time["gemm"].shape == (3, 5, 1)
    assert time["attention"].shape == (3, 5, 7)


def test_weight_read_is_shared_by_all_verified_tokens(deploy) -> None:
    one, four = (target_step(deploy(), 1, q, 512)["gemm"] for q in (1, 4))
    assert four < 1.1 * one


def test_each_verified_token_writes_its_own_state(deploy) -> None:
    deployment = deploy(recurrent_layer(1), floor_scale=0.0)
    one, four = (target_step(deployment, 64, q, 512)["recurrent"] for q in (1, 4))
    assert four / one == pytest.approx(5 / 2, rel=0.15)


def test_more_tokens_reach_more_experts(deploy) -> None:
    deployment = deploy(moe_layer(1))
    one, four = (target_step(deployment, 1, q, 512)["moe"] for q in (1, 4))
    assert four > one


def test_a_window_bounds_the_attention(deploy) -> None:
    deployment = deploy(attention_layer(window=128))
    near, far = (float(target_step(deployment, 8, 1, c)["attention"]) for c in (256, 100_000))
    assert near == far


def test_a_long_run_holds_lower_clocks_on_datacentre_gpus(deploy) -> None:
    full, sustained = deploy(sustained_compute=1.0), deploy(sustained_compute=0.75)
    assert sustained.running_gpu.peak("bf16") == pytest.approx(0.75 * full.running_gpu.peak("bf16"))
    assert sustained.running_gpu.memory_bytes_per_s == full.running_gpu.memory_bytes_per_s
    square = [Linear("square", 8192, 8192)]
    for rows, ratio in ((8192, 1 / 0.75), (1, 1.0)):
        slow, fast = (float(linear_time(d, square, rows)["gemm"]) for d in (sustained, full))
        assert slow / fast == pytest.approx(ratio, rel=0.02)


def test_a_lower_clock_slows_memory_less_than_compute() -> None:
    from .parts import model, plain_engine

    gpu = load_gpu("rtx_3090", clock_hz=1695e6 / 2)
    running = Deployment(model(), gpu, plain_engine()).running_gpu  # type: ignore[arg-type]
    assert running.memory_bytes_per_s / gpu.memory_bytes_per_s == pytest.approx(0.5**0.27)
    assert running.peak("bf16") == gpu.peak("bf16")


def test_latent_attention_reads_its_window_and_its_local_keys(deploy) -> None:
    def seconds(context: float, **fields: float) -> float:
        mixer = Attention("mla", 16, 1, 576, 512, linears=(Linear("o", 256, 256),), **fields)  # type: ignore[arg-type]
        return float(layers_time(deploy(), [Layer(1, mixer, None)], 8.0, 2.0, context)["attention"])

    assert seconds(65_536, window=128) == seconds(128)
    assert seconds(65_536, compression=128.0, local_window=128) == seconds(512 + 128)
    assert seconds(65_536, compression=4.0, local_window=128, top_k=512) == seconds(65_536, compression=4.0, top_k=640)


def test_matrices_see_the_padded_batch(deploy) -> None:
    deployment = deploy(pad_to=8.0)
    assert padded_rows(deployment, 5, 3) == 24.0
    assert padded_rows(deploy(pad_to=8.0, graphs=False), 5, 3) == 15.0


def test_collectives_follow_each_split_block(deploy) -> None:
    deployment = deploy(attention_layer(3), tp=2)
    one = kernels.all_reduce_s(deployment.gpu, 4.0 * 256 * 2, 2, "vllm")
    head = kernels.all_reduce_s(deployment.gpu, 4.0 * 1000, 2, "vllm")
    assert target_step(deployment, 4, 1, 100)["collective"] == pytest.approx(3 * 2 * one + head)
    assert target_step(deploy(attention_layer(3)), 4, 1, 100)["collective"] == 0.0


def test_a_drafter_may_run_on_one_rank(deploy) -> None:
    deployment = deploy(tp=2)
    alone = layers_time(deployment, deployment.model.layers, 4, 1, 100, tp=1)
    assert alone["collective"] == 0.0
    assert alone["gemm"] > layers_time(deployment, deployment.model.layers, 4, 1, 100)["gemm"]


@pytest.mark.parametrize(("overlap", "gpu_s", "exposed"), [(True, 3e-3, 0.0), (True, 1e-3, 1e-3), (False, 3e-3, 2e-3)])
def test_exposed_host_time(deploy, overlap: bool, gpu_s: float, exposed: float) -> None:
    from specadvisor.step import exposed_host_s

    assert exposed_host_s(deploy(host_s=2e-3, host_overlap=overlap), gpu_s) == pytest.approx(exposed)


def test_async_scheduling_overrides_the_engine_default(deploy) -> None:
    plain: Deployment = deploy(host_s=2e-3, host_overlap=True, async_scheduling=False)
    assert target_step(plain, 1, 1, 100)["host"] == pytest.approx(2e-3)


def test_beyond_the_largest_graph_the_host_launches_every_kernel(deploy) -> None:
    deployment = deploy(attention_layer(2), eager_layer_s=1.0, ceiling_tokens=64.0)
    assert target_step(deployment, 16, 4, 100)["host"] == 0.0
    assert target_step(deployment, 17, 4, 100).total_s == pytest.approx(2.0)


def test_sustained_compute_is_one_share_of_the_datasheet_over_the_families(deploy) -> None:
    """The law of each measured datacentre part, at its largest products, reaches what ``BENCHMARKED`` says of its family."""
    held = {}
    for name in ("a100_sxm_80gb", "h100_sxm", "h200_sxm", "b200_sxm"):
        gpu = load_gpu(name)
        reached = 2.0 * 8192 * 28672 * 8192 / float(kernels.gemm_s(gpu, 8192, 28672, 8192)) / gpu.peak("bf16")
        assert reached == pytest.approx(BENCHMARKED[gpu.sm], abs=0.03)
        held[gpu.sm] = reached * replace(deploy(), gpu=gpu).running_gpu.clock_scale
    assert max(held.values()) - min(held.values()) < 0.03
