"""Options that several commands share, and how their values reach the library."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specadvisor.data_files import profiles_dir
from specadvisor.errors import InputError, nearest
from specadvisor.ids import DRAFTERS, ENGINES, KV_FORMATS, WORKLOADS

if TYPE_CHECKING:
    from specadvisor.advise.advisor import Advisor
    from specadvisor.report.tables import Block

FORMATS = ("table", "json", "csv", "md")
OBJECTIVES = ("throughput", "latency", "goodput")


def offer(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Shell completion of a value out of ``known``."""
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def offer_files(folder: str, ending: str) -> Callable[[str], list[str]]:
    """Shell completion of the names of shipped profiles, without reading any."""

    def names(incomplete: str) -> list[str]:
        found = (path.name for path in (profiles_dir() / folder).glob(f"*{ending}"))
        return sorted(name.removesuffix(ending) for name in found if name.startswith(incomplete))

    return names


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="config.json, model directory, GGUF file, hf:org/name or a built-in name.",
        autocompletion=offer_files("models", "_config.json"),
    ),
]
GpuId = Annotated[
    str,
    typer.Option(
        "--gpu",
        "-g",
        help="GPU id, marketing name, profile file, or auto for the local one.",
        autocompletion=offer_files("gpus", ".toml"),
    ),
]
Engine = Annotated[str, typer.Option(help="Serving engine.", autocompletion=offer(ENGINES))]
EngineVersion = Annotated[str | None, typer.Option(help="Your engine's version; default: the one the facts were read from.")]
Tp = Annotated[int, typer.Option(help="Tensor-parallel GPUs.")]
Ep = Annotated[int, typer.Option(help="Expert-parallel groups.")]
Dp = Annotated[int, typer.Option(help="Data-parallel replicas.")]
Weights = Annotated[str | None, typer.Option(help="Weight format instead of the config's, such as fp8, w4a16, nvfp4, q4_k_m.")]
Kv = Annotated[
    str | None,
    typer.Option(help="KV-cache format instead of the model's.", autocompletion=offer(KV_FORMATS)),
]
PowerLimit = Annotated[
    float | None, typer.Option(help="Power limit of one GPU in watts; slows verification more than decoding.")
]
MemoryFraction = Annotated[
    float | None, typer.Option(help="Part of the GPU memory the engine may use (vLLM: --gpu-memory-utilization).")
]
KvPool = Annotated[
    float | None, typer.Option("--kv-pool", help="KV cache tokens the engine printed at start, without a drafter.")
]
DrafterNames = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter", "-d", help="Kind, kind:config.json or a path; may be repeated. Default: every legal one.",
        autocompletion=offer(DRAFTERS),
    ),
]  # fmt: skip
OneDrafter = Annotated[
    str,
    typer.Option("--drafter", "-d", help="Kind, kind:config.json or a path.", autocompletion=offer(DRAFTERS)),
]
Modifiers = Annotated[list[str] | None, typer.Option("--with", help="Modifier such as block-verification; may be repeated.")]
Acceptance = Annotated[
    list[str] | None,
    typer.Option(
        "--acceptance", "-a",
        help="conditional:0.8,0.7 | cumulative:0.8,0.56 | al:2.2@3 | rate:0.4@3 | alpha:0.7, after DRAFTER= where several are "
        "compared; may be repeated.",
    ),
]  # fmt: skip
Workload = Annotated[
    str,
    typer.Option(help="Workload, or shares such as coding:0.7,chat:0.3.", autocompletion=offer(WORKLOADS)),
]
Temperature = Annotated[float, typer.Option(help="Sampling temperature.")]
Concurrency = Annotated[
    str | None, typer.Option("--concurrency", "-c", help="Requests in flight: 8, 1,8,64 or 1..256 (powers of two).")
]
InputTokens = Annotated[int | None, typer.Option("--input", "-i", help="Prompt tokens of a request.")]
OutputTokens = Annotated[int | None, typer.Option("--output-tokens", "-n", help="Generated tokens of a request.")]
Context = Annotated[int | None, typer.Option(help="Keys a decode step sees; default: input + output / 2, else 2048.")]
Format = Annotated[str, typer.Option("--format", "-f", help="table, json, csv or md.", autocompletion=offer(FORMATS))]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write to this file instead of standard output.")]


def note(text: str) -> None:
    """A remark for the reader, beside the machine-readable output."""
    typer.echo(text, err=True)


def check_format(value: str) -> str:
    """``value`` if it is one of ``FORMATS``; raises ``InputError``."""
    if value not in FORMATS:
        raise InputError("format", value, ", ".join(FORMATS), nearest(value, FORMATS))
    return value


def emit(text: str, output: Path | None) -> None:
    """Machine output: to the file, whole or not at all, or to standard output."""
    if output is None:
        sys.stdout.write(text)
        return
    from specadvisor.report.writers import write

    write(output, text)
    note(f"written to {output}")


def numbers(field: str, text: str | None) -> list[int] | None:
    """``8``, ``1,8,64`` or ``1..256`` (the powers of two between, ends included) as a list; None stays None."""
    if text is None:
        return None
    values: list[int] = []
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        try:
            first, last = int(low), int(high) if dots else int(low)
        except ValueError:
            raise InputError(field, text, "whole numbers such as 8, 1,8,64 or 1..256") from None
        if last < first or (dots and first < 1):
            raise InputError(field, text, "a range upwards from 1, such as 1..256")
        if last > 10**7:
            raise InputError(field, text, "numbers up to 10,000,000")
        values.append(first)
        while dots and values[-1] * 2 <= last:
            values.append(values[-1] * 2)
        values.append(last)
    return sorted(set(values))


def make_advisor(
    model: str, gpu: str, engine: str, engine_version: str | None, tp: int, ep: int, dp: int, weights: str | None,
    kv: str | None, power_limit: float | None, memory_fraction: float | None = None, kv_pool: float | None = None,
) -> Advisor:  # fmt: skip
    """The advisor that the deployment options describe."""
    from specadvisor.advise.advisor import Advisor

    return Advisor(
        model,
        gpu,
        engine,
        tp=tp,
        ep=ep,
        dp=dp,
        weights=weights,
        kv=kv,
        engine_version=engine_version,
        power_limit_w=power_limit,
        memory_fraction=memory_fraction,
        kv_pool_tokens=kv_pool,
    )


def command_line() -> str:
    """What the user typed, to be extended in the measurement plan."""
    return "specadvisor " + " ".join(shlex.quote(word) for word in sys.argv[1:])


def emit_blocks(blocks: Sequence[Block], format: str, output: Path | None) -> None:
    """A report as table or Markdown; colours only on a terminal."""
    if format == "md":
        from specadvisor.report.markdown import markdown

        return emit(markdown(blocks), output)
    from specadvisor.report.console import plain, show

    return show(blocks) if output is None else emit(plain(blocks), output)
