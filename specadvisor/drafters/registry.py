"""Every drafter family, one line each, and how a user names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from specadvisor.drafters import (
    dflash,
    dflash2,
    domino,
    draft_model,
    dspark,
    eagle,
    eagle3,
    heads,
    mtp,
    ngram,
    p_eagle,
    target_only,
)
from specadvisor.drafters.base import Drafter
from specadvisor.drafters.config import check_kind, classify, read_config, stated_sizes
from specadvisor.drafters.engines import as_run_by
from specadvisor.drafters.siblings import load_small, sibling
from specadvisor.drafters.tree import Tree, parse_tree
from specadvisor.errors import InputError
from specadvisor.ids import ALIASES, DRAFTERS, resolve
from specadvisor.model.architecture import Architecture

if TYPE_CHECKING:
    from specadvisor.serving import ServingEngine

Builder = Callable[[Architecture, Mapping[str, Any] | None, str], Drafter]


@dataclass(frozen=True, slots=True)
class Family:
    """How to build a family; ``ranked``: part of the default ranking (the others are available by name)."""

    build: Builder | None
    ranked: bool = True


FAMILIES: dict[str, Family] = {
    "draft_model": Family(None),
    "eagle": Family(eagle.build),
    "eagle2": Family(eagle.build_eagle2),
    "eagle3": Family(eagle3.build),
    "eagle3_1": Family(eagle3.build_eagle3_1),
    "mtp": Family(mtp.build),
    "medusa": Family(heads.build_medusa),
    "hydra": Family(heads.build_hydra, ranked=False),
    "mlp_speculator": Family(heads.build_mlp_speculator),
    "p_eagle": Family(p_eagle.build),
    "pard": Family(None),
    "dflash": Family(dflash.build),
    "dflash2": Family(dflash2.build),
    "dspark": Family(dspark.build),
    "domino": Family(domino.build),
    "ngram": Family(ngram.build),
    "suffix": Family(ngram.build_suffix),
    "rest": Family(ngram.build_rest, ranked=False),
    "lookahead": Family(target_only.build_lookahead, ranked=False),
    "token_recycling": Family(target_only.build_token_recycling, ranked=False),
}


def load_drafter(
    kind_or_path: str,
    model: Architecture,
    engine: str = "vllm",
    *,
    config: str | Path | Mapping[str, Any] | None = None,
    tree: str | Tree = "",
    name: str = "",
) -> Drafter:
    """A drafter for ``model``.

    ``kind_or_path``: a kind (``eagle3``: the family's usual shape, said in ``assumptions``), a path to a drafter's
    config.json (its kind is read off it), ``kind:path`` (refused where the file names another kind), or
    ``draft_model:<built-in model or path>``. ``config`` gives the path or the parsed config beside a kind. ``tree``:
    ``topk4/steps4/tokens8``. Raises ``InputError`` for unknown kinds, unreadable files and sizes that are not positive whole
    numbers.
    """
    kind, path = _split(kind_or_path)
    source: str | Path | Mapping[str, Any] | None = path if config is None else config
    if not kind:
        kind = classify(read_config(str(source)))
    elif isinstance(source, Mapping) or _is_config(source):
        check_kind(kind, source if isinstance(source, Mapping) else read_config(source), _words(source))
    label = name or _label(kind, source)
    if kind in ("draft_model", "pard"):
        drafter = _small_model(kind, model, source, label)
    else:
        build = FAMILIES[kind].build
        assert build is not None
        text = source if isinstance(source, Mapping) or source is None else read_config(source)
        stated = None if text is None or _is_target(text, kind) else stated_sizes(text, label)
        drafter = build(model, stated, label)
    drafter = replace(drafter, from_file=source is not None)
    shape = parse_tree(tree) if isinstance(tree, str) else tree
    if shape:
        drafter = with_tree(drafter, shape)
    return as_run_by(resolve("engine", engine), drafter, explicit_tree=bool(tree))


def _small_model(kind: str, model: Architecture, source: Any, label: str) -> Drafter:
    if source is not None:
        return draft_model.build(model, load_small(source), label, kind)
    small = sibling(model)
    note = f"{kind}: {small.name} assumed, the smallest shipped model with this vocabulary." if small else ""
    return draft_model.build(model, small, label, kind, note)


def with_tree(drafter: Drafter, tree: Tree) -> Drafter:
    """The drafter with ``tree`` in place of a chain; its depth becomes the largest k."""
    return replace(drafter, tree=tree, k_max=min(drafter.k_max, tree.steps) if tree.best_first else tree.steps)


def legal_drafters(model: Architecture, serving: ServingEngine) -> list[Drafter]:
    """Every ranked family that runs for ``model`` on ``serving``, in the order of the registry.

    EAGLE-2 is EAGLE-1 with a tree: where an engine verifies chains only, it is not listed twice.
    """
    found: list[Drafter] = []
    for kind, family in FAMILIES.items():
        if not family.ranked or not serving.supports(kind).supported:
            continue
        try:
            drafter = load_drafter(kind, model, serving.id)
        except InputError:
            continue
        repeats_eagle = kind == "eagle2" and drafter.tree is None
        if not repeats_eagle and drafter.legality(model, serving) is None:
            found.append(drafter)
    return found


def _split(text: str) -> tuple[str, str | None]:
    """(kind or "", path or model name)."""
    text = str(text).strip()
    head, _, tail = text.partition(":")
    if tail and (head.lower() in DRAFTERS or head.lower() in ALIASES["drafter"] or head.replace("-", "_").lower() in DRAFTERS):
        return resolve("drafter", head), tail
    if Path(text).suffix == ".json" or Path(text).is_dir() or "/" in text:
        return "", text
    return resolve("drafter", text), None


def _label(kind: str, source: Any) -> str:
    return f"{kind} ({Path(source).name.removesuffix('.json')})" if isinstance(source, str | Path) else kind


def _is_config(source: Any) -> TypeGuard[str | Path]:
    """True for the path of a config.json; a draft model may also be a GGUF file, a shipped name or a loaded model."""
    if not isinstance(source, str | Path):
        return False
    return (Path(source) / "config.json").is_file() or (Path(source).suffix == ".json" and Path(source).is_file())


def _words(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else "config"


def _is_target(config: Mapping[str, Any], kind: str) -> bool:
    """True where a built-in head is named by its target's own config: the block is read by the model, not from here."""
    return kind == "mtp" and "assistant" not in str(config.get("model_type", ""))
