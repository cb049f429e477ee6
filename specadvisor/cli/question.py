"""What a command line asks: the options of every command that advises, and how they reach the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specadvisor.cli import options as opt
from specadvisor.errors import InputError

if TYPE_CHECKING:
    from specadvisor.advise.advisor import Advisor

LARGEST = 10**7
LONGEST_RANGE = 10_000


@dataclass(kw_only=True, eq=False, repr=False)
class Question:
    """Deployment, load, drafters and acceptance, as typed."""

    model: opt.Model
    gpu: opt.GpuId
    engine: opt.Engine = "vllm"
    engine_version: opt.EngineVersion = None
    tp: opt.Tp = 1
    ep: opt.Ep = 1
    dp: opt.Dp = 1
    weights: opt.Weights = None
    kv: opt.Kv = None
    power_limit: opt.PowerLimit = None
    memory_fraction: opt.MemoryFraction = None
    kv_pool: opt.KvPool = None
    concurrency: opt.Concurrency = None
    input_tokens: opt.InputTokens = None
    output_tokens: opt.OutputTokens = None
    context: opt.Context = None
    workload: opt.Workload = "mixed"
    temperature: opt.Temperature = 0.0
    drafter: opt.DrafterNames = None
    modifiers: opt.Modifiers = None
    acceptance: opt.Acceptance = None
    anchor: opt.Anchors = None

    def advisor(self) -> Advisor:
        """The advisor of the deployment."""
        from specadvisor.advise.advisor import Advisor

        advisor = Advisor(
            self.model,
            self.gpu,
            self.engine,
            tp=self.tp,
            ep=self.ep,
            dp=self.dp,
            weights=self.weights,
            kv=self.kv,
            engine_version=self.engine_version,
            power_limit_w=self.power_limit,
            memory_fraction=self.memory_fraction,
            kv_pool_tokens=self.kv_pool,
        )
        opt.note_outdated(advisor.deployment.gpu)
        return advisor

    def load(self) -> dict[str, Any]:
        """The keyword arguments that ``recommend``, ``sweep`` and ``explain`` of an advisor share."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "workload": self.workload,
            "temperature": self.temperature,
            "acceptance": self.acceptance or None,
            "modifiers": self.modifiers or (),
            "anchors": self.anchor or (),
        }

    def loads(self) -> list[int] | None:
        """The stated concurrencies."""
        return numbers("--concurrency", self.concurrency)

    def one_context(self) -> int | None:
        """The stated context; raises ``InputError`` for several."""
        return one("--context", self.context)


@dataclass(kw_only=True, eq=False, repr=False)
class RankingQuestion(Question):
    """A question whose answer ranks settings by an objective."""

    objective: opt.Objective = "throughput"
    max_tpot: opt.MaxTpot = None
    max_ttft: opt.MaxTtft = None

    def load(self) -> dict[str, Any]:
        """The arguments of ``Advisor.recommend`` beside the concurrency; limits in seconds."""
        return super().load() | {
            "context": self.one_context(),
            "drafters": self.drafter or None,
            "objective": self.objective,
            "max_tpot_s": _seconds("--max-tpot (ms)", self.max_tpot, self.objective),
            "max_ttft_s": _seconds("--max-ttft (ms)", self.max_ttft, self.objective, self.input_tokens is not None),
        }


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a ``Question`` takes each of its fields as an option, before its own."""
    (first, *own) = inspect.signature(command, eval_str=True).parameters.values()
    question = first.annotation
    fields = inspect.signature(question, eval_str=True).parameters

    def run(**values: Any) -> None:
        command(question(**{name: values.pop(name) for name in fields}), **values)

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    parameters = [*fields.values(), *(parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def numbers(field: str, text: str | None, *, every: bool = False, lowest: int = 1) -> list[int] | None:
    """``8``, ``1,8,64`` or a range ``1..256`` as a list; None stays None.

    A range is every whole number (``every``), else the powers of two between its ends, ends included.
    """
    if text is None:
        return None
    examples = "3, 0,1,3 or 0..5 (each of them)" if every else "8, 1,8,64 or 1..256 (powers of two)"
    accepted = f"whole numbers from {lowest}: {examples}"
    values: set[int] = set()
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        try:
            first, last = int(low), int(high) if dots else int(low)
        except ValueError:
            raise InputError(field, text, accepted) from None
        if first < lowest or last < first:
            raise InputError(field, text, accepted, "A range goes upwards." if last < first else "")
        if last > LARGEST or (every and last - first > LONGEST_RANGE):
            raise InputError(field, text, f"numbers up to {LONGEST_RANGE if every else LARGEST:,}")
        values |= {first, last}
        if every:
            values |= set(range(first, last))
        while not every and first * 2 <= last:
            first *= 2
            values.add(first)
    return sorted(values)


def one(field: str, text: str | None) -> int | None:
    """The only number in ``text``; raises ``InputError`` for several."""
    values = numbers(field, text)
    if values is not None and len(values) != 1:
        raise InputError(field, text, "one whole number from 1", "For several use specadvisor sweep.")
    return values[0] if values else None


def _seconds(field: str, milliseconds: float | None, objective: str, prompt_known: bool = True) -> float | None:
    """Milliseconds as seconds; an unusable limit is refused in the unit it was typed in."""
    if milliseconds is None:
        return None
    if not 0 < milliseconds < float("inf"):
        raise InputError(field, milliseconds, "a number above 0")
    if objective in opt.OBJECTIVES and objective != "goodput":
        raise InputError(field, milliseconds, "a limit with --objective goodput", f"The objective is {objective}.")
    if not prompt_known:
        raise InputError(field, milliseconds, "a limit together with --input-tokens")
    return milliseconds / 1e3
