"""The plan and the rules of our own attention kernel, on numbers that can be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from specadvisor.calibration.attention_kernel import VARIANTS, AttentionParams, choose_splits, choose_variant
from specadvisor.calibration.gemm_formats import RECIPES, recipes_for
from specadvisor.calibration.plan import AttentionPoint, Chunk, Plan, make_plan, model_shapes, plan_within
from specadvisor.calibration.timing import Effort, Timing, has_settled, replays, rotation
from specadvisor.model import load_model

EDGES = {row for edge in (16, 32, 64, 128, 256, 512) for row in (edge, edge + 1)}
MODELS = (None, "llama-3.1-8b", "qwen3-32b", "deepseek-v3", "gemma-4-e4b")


def points_of(plan: Plan, operator: str) -> list[Any]:
    return [p for s in plan.sections if s.operator == operator for p in s.points]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
def test_rows_straddle_every_tile_edge_in_every_format(capability: int, quick: bool) -> None:
    plan = make_plan(capability, quick=quick)
    by_format: dict[str, set[int]] = {}
    for p in points_of(plan, "gemm"):
        by_format.setdefault(p.format, set()).add(p.m)
    assert len(by_format) == (min(2, len(recipes_for(capability))) if quick else len(recipes_for(capability)))
    assert all(rows >= EDGES | {1} for rows in by_format.values())


@pytest.mark.parametrize("quick", [False, True])
def test_every_number_of_query_tokens_up_to_16_and_512_rows(quick: bool) -> None:
    points = points_of(make_plan(90, quick=quick), "attention")
    for kv_format in ("bf16",) if quick else ("bf16", "fp8"):
        here = [p for p in points if p.kv_format == kv_format and p.split]
        assert {p.query_tokens for p in here} >= set(range(1, 17))
        assert max(p.rows for p in here) == 512
        assert len({(p.batch, p.context) for p in here}) >= 3


def test_plan_covers_what_was_promised() -> None:
    plan = make_plan(90)
    names = [s.name for s in plan.sections]
    assert [n for n in names if n.startswith("GEMM")] == ["GEMM bf16", "GEMM fp8", "GEMM fp8_block"]
    points = points_of(plan, "attention")
    assert {p.head_dim for p in points} == {64, 128, 256}
    assert {p.split for p in points} == {True, False}
    assert {p.page_size for p in points} == {0, 16}
    assert {p.group for p in points} == {1, 4, 8}
    assert plan.left_out == ()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("capability", [80, 89, 90, 100, 120])
def test_the_time_is_kept_whatever_is_asked(capability: int, model: str | None) -> None:
    architecture = load_model(model) if model else None
    for quick, limit_s in ((False, 60.0), (True, 15.0)):
        plan = make_plan(capability, quick=quick, model=architecture)
        assert plan.seconds <= limit_s
        wanted = len({(c.section, p) for c in plan.chunks for p in c.points})
        assert bool(plan.left_out) == (sum(len(s.points) for s in plan.sections) < wanted)


def test_the_least_wanted_points_go_first() -> None:
    """15 s: 3 for what a needs, 10 points of a, 2 s are left for two of b; nothing for c."""
    chunks = [Chunk(2.0, "b", "gemm", ("b1", "b2", "b3"), 1.0), Chunk(1.0, "a", "gemm", tuple(range(10)), 1.0, 3.0)]
    plan = plan_within([*chunks, Chunk(3.0, "c", "gemm", ("c1",), 0.5)], 16.0, 1.0)
    assert [(s.name, s.points, s.seconds) for s in plan.sections] == [("b", ("b1", "b2"), 2.0), ("a", tuple(range(10)), 13.0)]
    assert plan.left_out == ("left out, to end within 16 s: 1 of 3 points of b, all of c",)
    assert plan.seconds == 16.0


def test_a_models_own_shapes_come_before_the_ladder_of_query_tokens() -> None:
    model = load_model("deepseek-v3")
    products = points_of(make_plan(90, quick=True, model=model), "gemm")
    assert {(p.n, p.k) for p in products if p.format == model.weight_format} == set(model_shapes(model))


def test_formats_by_generation() -> None:
    assert [r.format for r in recipes_for(80)] == ["bf16"]
    assert [r.format for r in recipes_for(89)] == ["bf16", "fp8"]
    assert [r.format for r in recipes_for(90)] == ["bf16", "fp8", "fp8_block"]
    assert [r.format for r in recipes_for(100)] == ["bf16", "fp8", "mxfp8", "nvfp4"]


def test_scale_factors_are_counted_with_their_padding() -> None:
    by_name = {r.format: r for r in RECIPES}
    assert by_name["bf16"].scale_bytes(300, 4096, True) == 0
    assert by_name["fp8"].scale_bytes(300, 4096, True) == 4
    # 300 rows pad to 384; 4096 / 16 = 256 one-byte scales a row
    assert by_name["nvfp4"].scale_bytes(300, 4096, True) == 384 * 256
    assert by_name["mxfp8"].scale_bytes(300, 4096, True) == 384 * 128
    # weight: 3 x 32 blocks of 128 x 128 pad to 4 x 32 floats; input: one float per row and 128 elements
    assert by_name["fp8_block"].scale_bytes(300, 4096, True) == 4 * 4 * 32
    assert by_name["fp8_block"].scale_bytes(300, 4096, False) == 4 * 300 * 32


def test_the_models_own_shapes_and_heads() -> None:
    model = load_model("llama-3.1-8b")
    # q, k, v fused 4096 + 2 * 1024; o; gate and up fused; down
    assert set(model_shapes(model)) == {(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)}
    assert set(model_shapes(model, tp=2)) == {(3072, 4096), (4096, 2048), (14336, 4096), (4096, 7168)}
    plan = make_plan(90, quick=True, model=model, tp=2)
    attention = [p for s in plan.sections if s.operator == "attention" for p in s.points]
    assert {(p.group, p.kv_heads, p.head_dim) for p in attention} == {(4, 4, 128)}


def test_cache_bytes() -> None:
    assert AttentionPoint(2, 1, 100, 4, kv_heads=8, head_dim=128).cache_bytes == 2 * 100 * 8 * 128 * 2 * 2
    assert AttentionPoint(2, 1, 100, 4, kv_heads=8, head_dim=128, kv_format="fp8").cache_bytes == 2 * 100 * 8 * 128 * 2


def test_smallest_tile_that_holds_the_rows() -> None:
    assert [choose_variant(128, rows).tile_rows for rows in (1, 16, 17, 64, 65, 128, 512)] == [16, 16, 64, 64, 128, 128, 128]
    assert choose_variant(256, 500).tile_rows == 64
    assert choose_variant(64, 8, kv_fp8=True).name == "attention_d64_r16_fp8"


def test_parameter_block_has_the_size_of_the_kernels_struct() -> None:
    # 8 pointers, 8 ints, 1 float, padded to 8 bytes
    import ctypes

    assert ctypes.sizeof(AttentionParams) == 8 * 8 + 8 * 4 + 4 + 4


@pytest.mark.parametrize(
    ("blocks", "kv_tiles", "splits"),
    [
        (120, 100, 1),  # 80% of 132 slots are 105.6: full enough
        (66, 100, 2),  # two splits fill 132 slots exactly
        (8, 1, 1),  # one tile cannot be split
        (1, 4, 4),  # never more splits than tiles
    ],
)
def test_split_rule(blocks: int, kv_tiles: int, splits: int) -> None:
    assert choose_splits(blocks, kv_tiles, sm_count=132, blocks_per_sm=1) == splits


def test_variants_have_one_name_each() -> None:
    assert len({v.name for v in VARIANTS}) == len(VARIANTS) == 16


def test_operands_rotate_past_five_caches() -> None:
    cache = 50e6
    assert rotation(300e6, cache) == 1
    for size in (1e6, 17e6, 60e6):
        sets = rotation(size, cache, limit=1000)
        assert (sets - 1) * size >= 5 * cache
    assert rotation(1e3, cache) == 1024


def test_sampling_stops_when_samples_agree() -> None:
    effort = Effort(min_samples=5, relative_iqr=0.01)
    assert not has_settled([1.0] * 4, effort)
    assert has_settled([1.0, 1.001, 0.999, 1.0, 5.0], effort)
    assert not has_settled([1.0, 1.1, 0.9, 1.05, 0.95], effort)
    assert Timing.of([1.0, 2.0, 3.0], 1, True).relative_iqr == pytest.approx(0.5)


class Queue:
    """A GPU that takes 10 s a replay, and a host that takes 3 s to queue one: graph and events of one stream."""

    def __init__(self) -> None:
        self.host_s, self.busy_until_s = 0.0, 0.0

    def launch(self, stream: object) -> None:
        self.host_s += 3.0
        self.busy_until_s = max(self.busy_until_s, self.host_s) + 10.0


class Stamp:
    """An event of ``Queue``."""

    def __init__(self, queue: Queue) -> None:
        self.queue, self.at_s = queue, 0.0

    def record(self, stream: object) -> None:
        self.at_s = max(self.queue.busy_until_s, self.queue.host_s)

    def synchronise(self) -> None:
        self.queue.host_s = max(self.queue.host_s, self.at_s)

    def seconds_since(self, start: Stamp) -> float:
        return self.at_s - start.at_s


def test_launching_from_the_host_is_no_part_of_a_sample() -> None:
    queue = Queue()
    stamps = [Stamp(queue) for _ in range(4)]
    for _ in range(2):
        assert replays(queue, None, stamps) == [10.0, 10.0, 10.0]  # type: ignore[arg-type]


def test_a_models_own_weight_format_goes_before_the_others() -> None:
    plan = make_plan(90, quick=True, model=load_model("deepseek-v3"))
    assert next(s.name for s in plan.sections if s.operator == "gemm") == "GEMM fp8_block"
