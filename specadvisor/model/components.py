"""What the weights are made of: parameters and bytes by component and format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specadvisor.formats import weight_format
from specadvisor.model.architecture import Architecture, Attention, Layer, Linear, Moe, MtpBlock

COMPONENTS = (
    "embedding", "attention", "recurrent", "mlp", "routed experts", "shared experts", "router", "head", "mtp", "other",
)  # fmt: skip
BESIDE_EXPERTS = {
    "shared_expert": "shared experts", "shared_experts": "shared experts", "share_expert": "shared experts",
    "gate": "router", "router": "router", "shared_expert_gate": "router",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weights:
    """One row: ``parameters`` of ``component`` held in ``format``, and their bytes on all ranks together."""

    component: str
    format: str
    parameters: int
    bytes: float


def weight_table(model: Architecture) -> list[Weights]:
    """Rows by component and format, in the order of ``COMPONENTS``; the sum without ``mtp`` is ``weight_bytes``."""
    entries = [
        ("embedding", model.embedding_format, model.embedding_parameters + model.lookup_parameters),
        *layer_entries(model.layers),
        ("other", "bf16", model.other_parameters),
    ]
    if not model.tied:
        entries.append(("head", model.head.format, model.head.parameters))
    if model.mtp:
        entries += mtp_entries(model.mtp)
    summed: dict[tuple[str, str], int] = {}
    for component, format_, parameters in entries:
        if parameters:
            summed[component, format_] = summed.get((component, format_), 0) + parameters
    rows = (Weights(c, f, n, n * weight_format(f).bytes_per_weight) for (c, f), n in summed.items())
    return sorted(rows, key=lambda row: COMPONENTS.index(row.component))


def layer_entries(layers: Iterable[Layer]) -> Iterator[tuple[str, str, int]]:
    """(component, format, parameters) of every matrix and remainder of ``layers``."""
    for layer in layers:
        mixer, forward, n = layer.mixer, layer.feed_forward, layer.count
        if mixer:
            name = "attention" if isinstance(mixer, Attention) else "recurrent"
            yield from ((name, m.format, n * m.parameters) for m in mixer.linears)
        if isinstance(forward, Moe):
            yield "routed experts", forward.format, n * forward.experts * forward.expert_parameters
            yield from ((beside_experts(m), m.format, n * m.parameters) for m in forward.linears)
        elif forward:
            yield from (("mlp", m.format, n * m.parameters) for m in forward.linears)
        vectors = sum(part.other_parameters for part in (mixer, forward) if part)
        yield "other", "bf16", n * (vectors + layer.norm_parameters)


def beside_experts(matrix: Linear) -> str:
    """Component of a matrix that every token runs in an expert layer."""
    return next((BESIDE_EXPERTS[piece] for piece in matrix.name.split(".") if piece in BESIDE_EXPERTS), "mlp")


def mtp_entries(block: MtpBlock) -> list[tuple[str, str, int]]:
    """The whole block under one name, by format."""
    one = [("mtp", format_, n) for _, format_, n in layer_entries(block.layers)]
    one += [("mtp", block.projection.format, block.projection.parameters), ("mtp", "bf16", block.norm_parameters)]
    return [(name, format_, block.modules * n) for name, format_, n in one]
