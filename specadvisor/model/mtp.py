"""The multi-token-prediction block that ships with a model's weights."""

from __future__ import annotations

from collections.abc import Callable

from specadvisor.model.architecture import Layer, Linear, MtpBlock
from specadvisor.model.config import Config
from specadvisor.model.families import Family
from specadvisor.model.pattern import single_blocks
from specadvisor.model.quantization import Quantization

BuildLayer = Callable[[int, str, str, tuple[str, ...], bool], Layer]
"""(index, mixer kind, feed-forward kind, module paths, is MTP) -> layer."""


def mtp_block(
    config: Config, family: Family, quantization: Quantization, depth: int, kinds: list[tuple[str, str]], build: BuildLayer
) -> MtpBlock | None:
    """The block, or None where neither the config nor the family's row has one.

    Its layers are full attention with the last layer's feed-forward unless a pattern key or the row says otherwise.
    Projection: two hidden vectors (embedding and state) to one; DeepSeek-V4 has two matrices of the same total size.
    """
    modules = config.count("mtp_modules")
    if config.get("use_mtp") is False:
        modules = 0
    declared = modules > 0
    if declared:
        patterned = config.get("mtp_pattern")
        shape = single_blocks(config, "mtp_pattern") if patterned else [("full", last_feed_forward(kinds))]
    elif family.mtp and config.get("mtp_modules") is None:
        modules = int(family.mtp["modules"])
        shape = [(str(family.mtp["layer"]), str(family.mtp["feed_forward"]))]
    else:
        return None
    paths = (f"layers.{depth}", "mtp.layers.0", "mtp.0")
    layers = tuple(build(depth, mixer, forward, paths, True) for mixer, forward in shape)
    hidden = config.integer("hidden_size")
    eh_proj = quantization.format_of([f"{path}.eh_proj" for path in paths], kept=True)
    return MtpBlock(modules, layers, Linear("eh_proj", 2 * hidden, hidden, eh_proj, "replicated"), 3 * hidden, declared)


def last_feed_forward(kinds: list[tuple[str, str]]) -> str:
    """The feed-forward kind of the last layer that has one."""
    return next((forward for _, forward in reversed(kinds) if forward != "none"), "mlp")
