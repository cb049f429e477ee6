"""From the columns of a sweep row to what the cost model needs: deployments, drafter, load, acceptance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from specadvisor.acceptance import Survival, from_cumulative, from_length, prior
from specadvisor.acceptance.catalogue import same_source
from specadvisor.drafters import Drafter, load_drafter
from specadvisor.errors import InputError
from specadvisor.hardware import Gpu, load_gpu
from specadvisor.ids import KV_FORMATS, WORKLOADS, resolve
from specadvisor.model import load_model
from specadvisor.model.architecture import Architecture
from specadvisor.serving import load_engine
from specadvisor.step import Deployment

# Keys of context assumed where a row prints neither its context nor its prompt: a short chat turn.
DEFAULT_CONTEXT = 1024.0
K_MAX = 32


class SetupKey(NamedTuple):
    """The columns that decide the deployments and the drafter of a row; rows that share them are evaluated together.

    The last three are 0 where the notes do not state them.
    """

    target_config: str
    weight_format: str
    kv_format: str
    gpu: str
    tp: int
    pp: int
    dp: int
    ep: int
    engine: str
    engine_version: str
    async_scheduling: str
    cuda_graphs: str
    drafter_kind: str
    drafter_config: str
    tree: str
    power_w: float
    clock_hz: float
    memory_fraction: float


@dataclass(frozen=True)
class Setup:
    """``plain`` is the arm without speculation (its own scheduling), ``speculating`` the arm with ``drafter``."""

    plain: Deployment
    speculating: Deployment
    drafter: Drafter


def setup_key(row: Any) -> SetupKey:
    """The key of one row (a named tuple of a sweep table). Power, clock and memory limits are read from the notes."""
    return SetupKey(
        row.target_config, row.weight_format, row.kv_format, row.gpu,
        _ranks(row.tp), _ranks(row.pp), _ranks(row.dp), _ranks(row.ep),
        row.engine, row.engine_version, row.async_scheduling.lower(), row.cuda_graphs.lower(), row.drafter_kind,
        row.drafter_config, row.tree,
        _number(r"power (?:limit )?(\d+) ?W", row.notes), _number(r"SM (\d+) ?MHz", row.notes) * 1e6,
        _number(r"gpu_memory_utilization (0\.\d+)", row.notes),
    )  # fmt: skip


@cache
def build_setup(key: SetupKey, folders: tuple[str, ...]) -> Setup:
    """Deployments and drafter of ``key``; config files are looked up in ``folders`` in order.

    Raises ``InputError`` with the reason where anything is unknown or missing.
    """
    model = _model(key.target_config, key.weight_format, key.kv_format, folders)
    version = key.engine_version if re.match(r"v?\d", key.engine_version) else None
    serving = load_engine(key.engine, version)
    if key.memory_fraction:
        serving = replace(serving, memory_fraction=key.memory_fraction)
    plain = Deployment(
        model,
        _gpu(key.gpu, key.power_w, key.clock_hz),
        serving,
        tp=key.tp,
        ep=key.ep,
        dp=key.dp,
        pp=key.pp,
        kv_format=model.kv_format,
    )
    speculating = replace(
        plain,
        graphs=key.cuda_graphs != "false",
        async_scheduling={"true": True, "false": False}.get(key.async_scheduling),
    )
    drafter = _drafter(key, model, folders)
    return Setup(plain, speculating, drafter)


def _drafter(key: SetupKey, model: Architecture, folders: tuple[str, ...]) -> Drafter:
    config = find_config(key.drafter_config, folders) if key.drafter_config else None
    return load_drafter(key.drafter_kind, model, key.engine, config=config, tree=key.tree)


def find_config(name: str, folders: Sequence[str]) -> Path:
    """The first file called ``name`` in ``folders``; raises ``InputError`` where none has it."""
    if not name:
        raise InputError("config", name, "the file name of a config", "The row names none.")
    for folder in folders:
        path = Path(folder) / name
        if path.is_file():
            return path
    raise InputError("config", name, f"a file in {', '.join(folders) or 'a folder given with --configs'}")


@cache
def _model(config: str, weights: str, kv: str, folders: tuple[str, ...]) -> Architecture:
    kv = kv if kv in KV_FORMATS else ""
    return load_model(find_config(config, folders), weights=weights or None, kv=kv or "bf16")


@cache
def _gpu(name: str, power_w: float, clock_hz: float) -> Gpu:
    gpu = load_gpu(name)
    limit = power_w if 0 < power_w < gpu.tdp_w else None
    clock = clock_hz if 0 < clock_hz < gpu.boost_hz else None
    return load_gpu(name, power_limit_w=limit, clock_hz=clock) if limit or clock else gpu


def _ranks(value: float) -> int:
    return int(value) if value == value and value >= 1 else 1


def _number(pattern: str, notes: str) -> float:
    match = re.search(pattern, notes)
    return float(match[1]) if match else 0.0


# --- load and acceptance of one row -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Lengths in tokens; ``note`` says what was assumed. ``input_tokens`` or ``output_tokens`` nan: no prefill term."""

    context: float
    input_tokens: float
    output_tokens: float
    note: str = ""


def load_of(row: Any) -> Load:
    """Context = printed, else prompt + half the output, else a stated default."""
    if row.context == row.context and row.context > 0:
        return Load(row.context, row.isl, row.osl)
    if row.isl == row.isl and row.isl > 0:
        return Load(row.isl + (row.osl / 2 if row.osl == row.osl else 0.0), row.isl, row.osl)
    return Load(DEFAULT_CONTEXT, row.isl, row.osl, f"context not given: {DEFAULT_CONTEXT:.0f} assumed, no prefill term")


def own_acceptance(row: Any) -> Survival | None:
    """The acceptance measured for this row: its list, else its length at its k (a tree's length stands for its depth)."""
    if row.survival:
        try:
            values = [float(v) for v in row.survival.split(";") if v.strip()]
        except ValueError:
            raise InputError("survival", row.survival, "fractions separated by semicolons") from None
        return from_cumulative(np.minimum.accumulate(values).tolist(), source="measured list")
    if row.accept_len == row.accept_len and row.accept_len >= 1.0:
        return _curve_of_length(min(float(row.accept_len), row.k + 1.0), int(row.k), resolve("drafter", row.drafter_kind))
    return None


@cache
def _curve_of_length(length: float, k: int, kind: str) -> Survival:
    return from_length(length, k, kind=kind, k_max=K_MAX, source="measured length")


def catalogue_acceptance(row: Any, drafter: Drafter) -> Survival:
    """The catalogue's prior for the row's drafter, workload and temperature (a tree's gain included).

    Rows of the catalogue that come from the sweep's own source do not take part.
    """
    workload = row.workload if row.workload in WORKLOADS else "mixed"
    temperature = row.temperature if row.temperature == row.temperature else 0.0
    chain = prior(drafter.kind, workload, float(temperature), K_MAX, same_source(row.source_url))
    if drafter.tree is None:
        return chain
    s = drafter.survival(chain.s, workload=workload, temperature=float(temperature))
    return Survival(s, chain.sigma, chain.source, tail=0.0)
