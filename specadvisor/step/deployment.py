"""What is deployed: a model on GPUs behind a serving engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from specadvisor.errors import InputError
from specadvisor.hardware.gpu import Gpu
from specadvisor.ids import resolve
from specadvisor.model.architecture import Architecture
from specadvisor.serving import ServingEngine

# Long serving runs hold lower clocks than a kernel benchmark of a few milliseconds: power-limited Hopper parts reach this
# share of the rate that the kernel laws were fitted on (FlashMLA: 865 of 990 TFLOP/s on one operator; fits on published
# sweeps with a family left out take 0.75 or 0.87, benchmarks/serving_fit.py).
SUSTAINED_COMPUTE = 0.75
# Share of the datasheet's rate that the kernel laws of a family reach on large products. What power allows in a long run is
# a share of the datasheet's rate, 0.75 * 0.92: families whose short benchmarks reach less of it fall less.
BENCHMARKED = {80: 0.80, 90: 0.92, 100: 0.78, 103: 0.78}
# A part whose tensor rate is capped by design never reaches its power limit: H20 has 0.37 TFLOP/s per watt, the others of
# these families 0.8 to 2.3. D-Cut times on H20 agree within 6% at the full rate, 22% at 0.75 (benchmarks/anchors.py).
POWER_LIMITED_FLOP_PER_J = 0.5e12
# Plain decoding answers to the SM clock with an elasticity of 0.23-0.30 (RTX 3090, published clock grid): reading
# memory needs the SMs too.
MEMORY_CLOCK_ELASTICITY = 0.27


@dataclass(frozen=True)
class Deployment:
    """One replica of ``model``: ``tp`` ranks for the dense matrices, ``ep`` groups for the experts (``ep`` divides ``tp``,
    or spans the ``tp * dp`` ranks of expert-parallel serving), ``pp`` stages. ``dp`` replicas share the load before it
    arrives here: batch and concurrency are always per replica.

    ``async_scheduling``: None = the engine's default. ``graphs`` False: every kernel is launched by the host.
    ``sustained_compute``: share of the benchmarked compute rate that a long run holds on Hopper; other datacentre families
    hold the same share of the datasheet's rate.
    """

    model: Architecture
    gpu: Gpu
    serving: ServingEngine
    tp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    kv_format: str = ""
    graphs: bool = True
    async_scheduling: bool | None = None
    sustained_compute: float = SUSTAINED_COMPUTE

    def __post_init__(self) -> None:
        for name in ("tp", "ep", "dp", "pp"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 1024:
                raise InputError(name, value, "a whole number of ranks, 1 to 1024")
        self.model.check_tp(self.tp)
        if self.ep > self.tp * self.dp:
            raise InputError("ep", self.ep, f"at most tp * dp = {self.tp * self.dp} ranks")
        kv_format = resolve("KV format", self.kv_format) if self.kv_format else self.model.kv_format
        object.__setattr__(self, "kv_format", kv_format)

    @cached_property
    def running_gpu(self) -> Gpu:
        """The GPU at the clocks of a long run: what the step model times its operators on."""
        gpu = self.gpu
        limited = gpu.sm in BENCHMARKED and gpu.peaks.get("bf16", 0.0) > POWER_LIMITED_FLOP_PER_J * gpu.tdp_w
        held = min(1.0, self.sustained_compute * BENCHMARKED[90] / BENCHMARKED[gpu.sm]) if limited else 1.0
        return replace(
            gpu,
            clock_scale=gpu.clock_scale * held,
            memory_bytes_per_s=gpu.memory_bytes_per_s * gpu.clock_scale**MEMORY_CLOCK_ELASTICITY,
        )

    @property
    def floor_scale(self) -> float:
        """Share of an operator's own launch floor that stays inside a whole-model graph; all of it without graphs."""
        return self.serving.floor_scale if self.graphs else 1.0

    @property
    def overlaps_host(self) -> bool:
        """True where the host prepares the next step while the GPU works."""
        return self.serving.host_overlap if self.async_scheduling is None else self.async_scheduling

    @property
    def ranks(self) -> int:
        """GPUs that hold one replica."""
        return self.tp * self.pp
