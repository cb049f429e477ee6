"""The options that commands share, each once, and where output goes."""

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
    from specadvisor.hardware import Gpu
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
Modifiers = Annotated[
    list[str] | None,
    typer.Option(
        "--with", help="Modifier such as block-verification or tree=topk4/steps3/tokens8 (see drafters); may be repeated."
    ),
]
Acceptance = Annotated[
    list[str] | None,
    typer.Option(
        "--acceptance", "-a",
        help="conditional:0.8,0.7 | cumulative:0.8,0.56 | al:2.2@3 | rate:0.4@3 | alpha:0.7 | hit:0.4,4.6@5 "
        "(a lookup's share of rounds with a match, AL given one), after DRAFTER= where several are compared; may be repeated.",
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
InputTokens = Annotated[
    int | None, typer.Option("--input-tokens", "--isl", "--input", "-i", help="Prompt tokens of a request.")
]
OutputTokens = Annotated[int | None, typer.Option("--output-tokens", "--osl", "-n", help="Generated tokens of a request.")]
Context = Annotated[
    str | None,
    typer.Option("--context", help="Keys a decode step sees (sweep: several); default: input + output / 2, else 2048."),
]
Objective = Annotated[str, typer.Option(help="throughput, latency or goodput.", autocompletion=offer(OBJECTIVES))]
MaxTpot = Annotated[float | None, typer.Option("--max-tpot", help="Largest time per output token in ms (goodput).")]
MaxTtft = Annotated[
    float | None, typer.Option("--max-ttft", help="Largest time to first token in ms (goodput; needs --input-tokens).")
]
Anchors = Annotated[
    list[str] | None,
    typer.Option("--anchor", help='Measured point, such as "concurrency=1,k=3,speedup=1.9"; may be repeated.'),
]


def check_format(value: str) -> str:
    """``value`` if it is one of ``FORMATS``; raises ``InputError``."""
    if value not in FORMATS:
        raise InputError("--format", value, ", ".join(FORMATS), nearest(value, FORMATS))
    return value


def check_output(value: Path | None) -> Path | None:
    """``value`` if a file can be called so; raises ``InputError`` before anything is computed."""
    if value is not None and (value.is_dir() or not value.name):
        raise InputError("--output", "" if value == Path() else str(value), "the path of a file that can be written")
    return value


def check_folder(value: str | None) -> str | None:
    """``value`` if a folder can be called so; raises ``InputError`` before anything is computed."""
    if value is not None and (not value.strip() or Path(value).is_file()):
        raise InputError("--plot", value, "a folder for the figures")
    return value


Format = Annotated[
    str,
    typer.Option("--format", "-f", help="table, json, csv or md.", autocompletion=offer(FORMATS), callback=check_format),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write to this file instead of standard output.", callback=check_output),
]
Plot = Annotated[
    str | None,
    typer.Option(help="Draw roofline, speed-up curves and heat map into this folder.", callback=check_folder),
]


def note(text: str) -> None:
    """A remark for the reader, beside the machine-readable output."""
    typer.echo(text, err=True)


def note_outdated(gpu: Gpu) -> None:
    """A remark where the user's own calibration of ``gpu`` is older than this machine's driver or cuBLAS."""
    if gpu.kernels and gpu.kernels.calibration:
        from specadvisor.calibration.freshness import outdated_note

        if text := outdated_note(gpu.id, gpu.kernels.calibration):
            note(f"note: {text}")


def emit(text: str, output: Path | None) -> None:
    """Machine output: to the file, whole or not at all, or to standard output."""
    if output is None:
        sys.stdout.write(text)
        return
    from specadvisor.report.writers import write

    write(output, text)
    note(f"written to {output}")


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
