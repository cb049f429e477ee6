"""One layer under construction: its config, its place, and the format of each matrix it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from specadvisor.model.architecture import Linear, Shard
from specadvisor.model.config import Config
from specadvisor.model.families import Family
from specadvisor.model.quantization import Quantization


@dataclass(frozen=True)
class Scope:
    """``paths``: the module paths under which checkpoints know this layer. ``kind``: its mixer, as ``pattern`` names it."""

    config: Config
    family: Family
    quantization: Quantization
    paths: tuple[str, ...]
    index: int
    kind: str
    mtp: bool = False

    @property
    def hidden(self) -> int:
        return self.config.integer("hidden_size")

    def linear(
        self, part: str, name: str, inputs: int, outputs: int, *, shard: Shard = "column", units: int = 0, fused: str = "",
        kept: bool = False,
    ) -> Linear:  # fmt: skip
        """The matrix ``name`` of the module ``part``; ``kept`` for matrices that quantisers leave in 16 bit."""
        full = f"{part}.{name}" if part else name
        format_ = self.quantization.format_of(self.modules(full), kept=kept, mtp=self.mtp)
        return Linear(full, inputs, outputs, format_, shard, units, fused)

    def expert_format(self, part: str) -> str:
        full = ".".join(piece for piece in (part, self.family.name("experts")) if piece)
        return self.quantization.format_of(self.modules(full), experts=True, mtp=self.mtp)

    def modules(self, name: str) -> tuple[str, ...]:
        return tuple(f"{path}.{name}" for path in self.paths)
