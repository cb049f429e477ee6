"""How acceptance falls with the context, by drafter kind: a factor on AL - 1, 1 up to the context of the training.

A drafter with attention of its own has never seen positions past those of its training. Published rows:

- EAGLE-3 collapses. Qwen3-8B on LongBench-v2 (speculators pull request 684): AL 2.30, 2.04, 1.69, 1.29, 1.08 at 2k, 4k, 8k,
  12k, 20k. Llama-3.3-70B (SPEED-Bench Table 10, trained to 2k): 2.59 at 2k, 1.19 at 8k. Both are met within 0.1 by
  exp(-(S - T) / (1.4 T)) with T = 4096 and 2048.
- DFlash fades. Qwen3.5-27B, trained to 4k (DFlash paper, Table 4): AL - 1 keeps .76 to .89 at 8k, .57 to .67 at 16k, .37
  at 32k of its value at 4k; 1 / (1 + (S - T) / (4.5 T)) meets these within 0.07.
- What a head was trained on is often not known, and many are trained on longer text than those. An EAGLE-3 head of
  Qwen3-Coder-30B-A3B falls from 3.67 at 2.5k to 1.58 at 252k, DFlash of the paper from 4.53 at 1k to 2.09 at 32k: powers of the
  context of 0.33 and 0.34. Without a known training that power holds from 2k on, and the range widens by half of what it takes.
- Drafters without attention of their own, MTP blocks and whole models do not depend on it.

A drafter with a sliding window reads min(context, window) keys: ask for that context. A window it was trained with keeps AL
flat to 20k (1.53 to 1.63, speculators pull request 684); one put on afterwards recovers only part of the loss (1.34 to 1.88,
vllm-ascend pull request 10023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specadvisor.errors import InputError
from specadvisor.ids import resolve
from specadvisor.ranges import FloatArray

COLLAPSE_SCALE = 1.4
FADE_SCALE = 4.5
UNTOLD_FROM = 2048.0
UNTOLD_POWER = 0.34
UNTOLD = "training length not known: Qwen3-Coder-30B-A3B's EAGLE-3 head to 252k, DFlash paper, Table 4"


def _collapse(beyond: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-beyond / COLLAPSE_SCALE))


def _fade(beyond: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + beyond / FADE_SCALE))


def _stable(beyond: FloatArray) -> FloatArray:
    return np.ones_like(beyond)


@dataclass(frozen=True, slots=True)
class ContextLaw:
    """``factor`` maps (context - trained) / trained, at least 0, to the factor on AL - 1.

    ``state``: ``published`` where two sources agree, else ``assumed`` (one source, or that of a related kind).
    """

    factor: Callable[[FloatArray], FloatArray]
    state: str
    source: str

    @property
    def depends(self) -> bool:
        """Whether kinds of this law accept less beyond their training."""
        return self.factor is not _stable


_EAGLE3 = "speculators pull request 684 (Qwen3-8B) and SPEED-Bench Table 10 (Llama-3.3-70B)"
_DFLASH = "DFlash paper, Table 4 (Qwen3.5-27B, trained to 4k)"
_NO_ATTENTION = "no attention of its own: the target's hidden state carries the context"
_LOOKUP = "a longer context holds more to look up; the gain is not published by length, so none is counted"

CONTEXT_LAWS = {
    "eagle": ContextLaw(_collapse, "assumed", f"as EAGLE-3, whose layer it is: {_EAGLE3}"),
    "eagle2": ContextLaw(_collapse, "assumed", f"as EAGLE-3, whose layer it is: {_EAGLE3}"),
    "eagle3": ContextLaw(_collapse, "published", _EAGLE3),
    "eagle3_1": ContextLaw(_stable, "assumed", "vLLM blog 2026-07-13, MiniMax-M3: AL 2.69 at 1k, 2.65 at 32k"),
    "p_eagle": ContextLaw(_collapse, "assumed", f"as EAGLE-3, whose layers it has: {_EAGLE3}"),
    "dflash": ContextLaw(_fade, "assumed", _DFLASH),
    "domino": ContextLaw(_fade, "assumed", f"as DFlash, whose backbone it has: {_DFLASH}"),
    "dspark": ContextLaw(_fade, "assumed", f"as DFlash, whose backbone it has: {_DFLASH}"),
    "dflash2": ContextLaw(_stable, "assumed", "its layers have a window of 2,048 tokens, trained with it"),
    "mtp": ContextLaw(_stable, "published", "SPEED-Bench figure 13 (flat to 32k); LMSYS blog 2025-07-17 (2.44 at 64k)"),
    "draft_model": ContextLaw(
        _stable, "assumed", "SPEED-Bench Table 10: a 1B model rises from 2.47 at 1k to 2.60 at 8k; no gain is counted"
    ),
    "pard": ContextLaw(_stable, "assumed", "as the draft model that it is"),
    "mlp_speculator": ContextLaw(_stable, "assumed", "OWL paper, Table 1: an LSTM trained on 256 tokens, 4.0 at 4k-64k"),
    "medusa": ContextLaw(_stable, "assumed", _NO_ATTENTION),
    "hydra": ContextLaw(_stable, "assumed", _NO_ATTENTION),
    "ngram": ContextLaw(_stable, "assumed", _LOOKUP),
    "suffix": ContextLaw(_stable, "assumed", _LOOKUP),
    "rest": ContextLaw(_stable, "assumed", _LOOKUP),
    "lookahead": ContextLaw(_stable, "assumed", _LOOKUP),
    "token_recycling": ContextLaw(_stable, "assumed", _LOOKUP),
}  # fmt: skip


def context_factor(kind: str, context: ArrayLike, trained_context: float | None = None) -> FloatArray:
    """Factor on AL - 1 at ``context`` tokens (any shape), never rising, 1 up to ``trained_context``.

    ``trained_context`` None or 0: not known, the mild power of a drafter whose training is not known, 1 up to 2,048. The
    ``max_position_embeddings`` of a drafter's config is that context only where it is below the target's own: many copy the
    target's. Raises ``InputError``.
    """
    law = context_law(kind)
    tokens = np.asarray(context)
    if tokens.dtype.kind not in "iuf" or not np.all(np.isfinite(tokens)) or np.any(tokens < 0):
        raise InputError("context", context, "a number of tokens of at least 0")
    if trained_context is not None and not (np.isfinite(trained_context) and trained_context >= 0):
        raise InputError("trained_context", trained_context, "a number of tokens of at least 0 (0: not known)")
    tokens = np.asarray(tokens, dtype=float)
    if not trained_context:
        power = UNTOLD_POWER if law.depends else 0.0
        return np.asarray(np.maximum(tokens / UNTOLD_FROM, 1.0) ** -power)
    return law.factor(np.maximum(tokens / float(trained_context) - 1.0, 0.0))


def context_sigma(kind: str, context: ArrayLike, trained_context: float | None = None) -> FloatArray:
    """Log standard deviation of ``context_factor``: half of its logarithm where the training is not known, else 0.

    That reaches from a head that keeps its acceptance to one that was trained on 2k and loses nearly all of it.
    """
    known = 0.0 if trained_context else 0.5
    return np.asarray(-known * np.log(np.maximum(context_factor(kind, context, trained_context), 1e-9)))


def context_law(kind: str) -> ContextLaw:
    """The law of ``kind`` (an id or an alias) with its source and state."""
    return CONTEXT_LAWS[resolve("drafter", kind)]


def context_note(kind: str, context: float, trained_context: float | None = None) -> str:
    """What ``context_factor`` did, in a sentence; empty where it is 1."""
    factor = float(context_factor(kind, context, trained_context))
    if factor == 1.0:
        return ""
    if not trained_context:
        return f"context {context:g}: AL - 1 times {factor:.2f} ({UNTOLD})"
    law = context_law(kind)
    reason = f"{law.state}: {law.source}"
    return f"context {context:g} is beyond the trained {trained_context:g}: AL - 1 times {factor:.2f} ({reason})"
