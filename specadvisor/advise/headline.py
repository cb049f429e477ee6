"""The first lines of the answer: what to run, how sure, what the choice rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specadvisor.advise.choose import USUAL_K
from specadvisor.advise.recommendation import Curve, Leader, Load, Option, Schedule, Tier
from specadvisor.advise.standing import TO_BE_TRAINED, availability, available, gains, origin, passed_over
from specadvisor.advise.wording import loads, times
from specadvisor.drafters.facts import TRAINING_CLASSES

NO_GAIN = "no gain beyond the noise of 2%"


def headline(
    load: Load, schedule: Schedule, curves: Mapping[str, Curve], plain: Sequence[Option], found: Sequence[Leader]
) -> tuple[str, ...]:
    """What to do first; then what it rests on, where the drafter comes from and who else competes."""
    curve = curves.get(schedule.drafter)
    if curve is None:
        return ("Do not speculate: no drafter can run here (the reasons are under Left out).",)
    lines = [*_unmet(load, curves, plain), *_not_here(curve), *_verdict(load, schedule, curve)]
    speculates = any(tier.k for tier in schedule.tiers)
    if speculates and curve.drafter.lossy:
        lines.append(
            f"{curve.name} is lossy: it changes the distribution of the output. Check quality on your own tasks first."
        )
    lines += [*_off(schedule, load), *_beyond(curve)]
    if not curve.acceptance_known:
        see = "" if curve.missing else " See Measure next."
        lines.append(f"Acceptance of {curve.name} is not measured: this rests on a catalogue value.{see}")
        lines += [*_usual(curve, load), *_trial(schedule, curve)]
    if speculates and not curve.acceptance_known:
        lines += [*_source(curve), *_at_hand(load, curve, curves)]
    lines += _rivals(curve, curves, load, found)
    if curve.acceptance_known and any(not c.acceptance_known for c in curves.values()):
        lines.append("Drafters whose acceptance is only a catalogue value are listed below, not chosen.")
    return tuple(lines)


def _verdict(load: Load, schedule: Schedule, curve: Curve) -> list[str]:
    what = {"throughput": "throughput", "latency": "TPOT", "goodput": "goodput"}[load.objective]
    if curve.evaluation.extra_gpus and load.objective != "latency":
        what += " per GPU"
    name = _named(curve)
    if all(tier.k == 0 for tier in schedule.tiers):
        if not any(curve.gains.plain) and not np.any(curve.gain.mid):
            return []
        where = loads(min(load.concurrency), max(load.concurrency))
        return [f"Do not speculate at concurrency {where}: {NO_GAIN}, leave it off."]
    if len(load.concurrency) == 1:
        choice = curve.choices[0]
        sure = "" if choice.verdict == "gain" else ", not distinguishable from no speculation"
        at = f"at concurrency {load.concurrency[0]}"
        if choice.trial and not curve.acceptance_known:
            trial = f"a trial of k = {choice.k} would decide: {what} {times(choice.gain)}"
            return [f"No k of {name} is expected to gain {at}; {trial}."]
        run = f"With {name}, k = {choice.k} would give" if curve.missing else f"Run {name} with k = {choice.k}"
        text = f"{run} {at}: {what} {times(choice.gain)}{sure}"
        if choice.cautious < choice.k:
            text += f"; k = {choice.cautious} is within 2% of the best and the cautious choice"
        return [text + "."]
    parts = [f"{loads(t.low, t.high)}: " + (f"k = {t.k}, {_fall(t)}" if t.k else "off") for t in schedule.tiers]
    tried = [_on_trial(t, curve) for t in schedule.tiers]
    if all(trial or not t.k for trial, t in zip(tried, schedule.tiers, strict=True)) and not _gains_anywhere(schedule):
        run = f"No k of {name} is expected to gain; a trial would decide. Expected"
    else:
        run = f"With {name} by load," if curve.missing else f"Run {name} by load,"
        parts = [f"{part} (a trial)" if trial else part for part, trial in zip(parts, tried, strict=True)]
    return [f"{run} {what} over plain decoding at concurrency " + "; ".join(parts) + "."]


def _not_here(curve: Curve) -> list[str]:
    """Says first what the engine cannot run: the numbers after it are no setting to paste."""
    return [f"{curve.name} cannot be run here: {'; '.join(curve.missing)}."] if curve.missing else []


def _on_trial(tier: Tier, curve: Curve) -> bool:
    """Whether k stands at loads of ``tier`` where only a catalogue value speaks, and that against it."""
    return not curve.acceptance_known and bool(tier.k) and min(tier.at_low.mid, tier.at_high.mid) < 1.0


def _gains_anywhere(schedule: Schedule) -> bool:
    return any(tier.k and max(tier.at_low.mid, tier.at_high.mid) > 1.0 for tier in schedule.tiers)


def _named(curve: Curve) -> str:
    absent = not curve.acceptance_known and origin(curve) == TO_BE_TRAINED
    return f"{curve.name} (once trained)" if absent else curve.name


def _beyond(curve: Curve) -> list[str]:
    """Says where k goes beyond the positions whose acceptance was measured."""
    longest = max(choice.k for choice in curve.choices)
    if curve.reach is None or longest <= curve.reach or not curve.acceptance_known:
        return []
    known = "the one number you gave" if curve.reach == 1 else f"what you measured (k = {curve.reach})"
    return [f"k = {longest} goes beyond {known}: acceptance there is extrapolated. Measure it at that k before you rely on it."]


def _fall(tier: Tier) -> str:
    """``1.97x to 1.82x``: the gain at the two ends of a tier."""
    low, high = f"{tier.at_low.mid:.2f}x", f"{tier.at_high.mid:.2f}x"
    return low if low == high else f"{low} to {high}"


def _off(schedule: Schedule, load: Load) -> list[str]:
    """Loads without speculation beside loads with it: whether the drafter should be loaded there."""
    off = [t for t in schedule.tiers if t.k == 0]
    if not off or len(off) == len(schedule.tiers):
        return []
    where = ", ".join(loads(t.low, t.high) for t in off)
    last = off[-1]
    why = "no goodput to gain" if load.objective == "goodput" else NO_GAIN
    text = f"At concurrency {where}: {why}, leave it off. A server for these loads alone should not load the drafter"
    if last.held_bytes or last.idle_s:
        text += f": loaded and idle it holds {last.held_bytes / 1e9:.1f} GB and gives {last.idle_speedup:.2f}x at {last.high}"
    return [text + _if_loaded(off) + "."]


def _if_loaded(off: Sequence[Tier]) -> str:
    """What the schedule's column k if loaded says about the loads that are off."""
    used = [tier for tier in off if tier.deployed_k]
    if not used:
        return ""
    same = len(used) == len(off) and len({tier.deployed_k for tier in used}) == 1
    ks = [f"k = {tier.deployed_k}" + ("" if same else f" at {loads(tier.low, tier.high)}") for tier in used]
    return f"; where it is loaded, {ks[0] if same else ', '.join(ks)} is better than idling"


def _trial(schedule: Schedule, curve: Curve) -> list[str]:
    """Tiers where only a catalogue value speaks against speculation: it decides nothing, a measurement does."""
    tried = [tier for tier in schedule.tiers if _on_trial(tier, curve)]
    if not tried:
        return []
    where = ", ".join(loads(tier.low, tier.high) for tier in tried)
    return [
        f"At some loads within {where} the catalogue's acceptance gains nothing and a better one would: k there is a trial. "
        "Measure it before you keep it or turn it off."
    ]


def _usual(curve: Curve, load: Load) -> list[str]:
    """Says where the k nearest to the usual one stands instead of a slightly better expected one."""
    ks = curve.evaluation.k.ravel().astype(int)
    mid = np.broadcast_to(curve.gain.mid, (ks.size, len(load.concurrency)))
    stands = [c for c, choice in enumerate(curve.choices) if choice.k and choice.k != int(ks[mid[:, c].argmax()])]
    if not stands:
        return []
    if curve.drafter.lookup:
        return [
            f"{curve.name}: published rows end at k = {curve.reach}; how long a match goes on beyond is a guess, so a longer k "
            "has to win at its low end."
        ]
    return [f"With a catalogue value the k nearest to the usual {USUAL_K} stands wherever nothing is more than 2% better."]


def _source(curve: Curve) -> list[str]:
    where = availability(curve.drafter)
    if where != TO_BE_TRAINED:
        says = {
            "in the checkpoint": "ships in the model's checkpoint", "no training": "needs no training",
            "your file": "is the file you gave", "published for this model": "heads of this kind are published for this model",
        }[where]  # fmt: skip
        return [f"{curve.name}: {says}."]
    training = TRAINING_CLASSES[curve.drafter.facts.training_class]
    return [f"{curve.name} has to be trained for this very model unless you have one: {training}."]


def _at_hand(load: Load, curve: Curve, curves: Mapping[str, Curve]) -> list[str]:
    """What can run today where the leading drafter has to be trained first."""
    other = available(curves, curve)
    if other is None:
        return []
    running = [(users, choice) for users, choice in zip(load.concurrency, other.choices, strict=True) if gains(choice)]
    ends = running[:1] if len(running) == 1 else [running[0], running[-1]]
    by_load = ", ".join(f"{choice.gain.mid:.2f}x at {users} with k = {choice.k}" for users, choice in ends)
    return [f"Until then {other.name} can run ({availability(other.drafter)}): {by_load}."]


def _rivals(curve: Curve, curves: Mapping[str, Curve], load: Load, found: Sequence[Leader]) -> list[str]:
    """Other drafters that expect more at some load, and all that cannot be told from the leading one."""
    lines = [
        f"{other.name} expects more from its catalogue value, but no published measurement of its kind stands behind that: "
        "it does not lead."
        for other in passed_over(curves, curve)
    ]
    ahead = [one for one in found if one.k and one.drafter != curve.name]
    if ahead:
        lines.append("Another drafter expects more at some loads (Best drafter by load); one server runs one drafter.")
    if group := _indistinguishable(curve, curves):
        named = ", ".join(c.name for c in group)
        lines.append(
            f"{curve.name} is not distinguishable at concurrency {load.concurrency[0]} from "
            f"{len(group)} other{'s' if len(group) > 1 else ''}: {named} (Drafters compared)."
        )
    return lines


def _indistinguishable(curve: Curve, curves: Mapping[str, Curve]) -> list[Curve]:
    """Drafters whose interval at the lowest load holds the expected gain of ``curve``'s, the best first."""
    mine = curve.choices[0]
    if not mine.k:
        return []
    others = [c for c in curves.values() if c.name != curve.name and c.choices[0].k and not (c.drafter.lossy or c.missing)]
    alike = [c for c in others if c.choices[0].gain.low <= mine.gain.mid <= c.choices[0].gain.high]
    return sorted(alike, key=lambda c: -c.choices[0].gain.mid)


def _unmet(load: Load, curves: Mapping[str, Curve], plain: Sequence[Option]) -> list[str]:
    """Loads at which no setting of any drafter, nor plain decoding, meets the stated limits; what comes nearest, and which
    limit stops it (of several the one it misses by the most).
    """
    if load.objective != "goodput":
        return []
    unmet, misses = [], []
    for column, users in enumerate(load.concurrency):
        if plain[column].meets_limits or any(c.gains.meets[:, column].any() for c in curves.values()):
            continue
        unmet.append(str(users))
        misses.append(_missed(load, f"plain decoding at {users}", plain[column].tpot_s, plain[column].ttft_s))
        for curve in curves.values():
            shape = curve.gains.meets.shape
            tpot, ttft = (np.broadcast_to(v, shape)[:, column] for v in (curve.gains.tpot_s, curve.gains.ttft_s))
            for k, one, first in zip(curve.evaluation.k.ravel(), tpot, ttft, strict=True):
                misses.append(_missed(load, f"{curve.name} k = {int(k)} at {users}", float(one), float(first)))
    if not unmet:
        return []
    _, quantity, seconds, limit, name = min(misses)
    return [
        f"No setting meets the stated limits at concurrency {', '.join(unmet)}: {name} comes nearest with a {quantity} of "
        f"{seconds * 1e3:,.1f} ms, the limit is {limit * 1e3:,.1f} ms."
    ]


def _missed(load: Load, name: str, tpot_s: float, ttft_s: float) -> tuple[float, str, float, float, str]:
    """(value over limit, quantity, value, limit, ``name``) of the stated limit that a setting misses by the most."""
    stated = (("TPOT", tpot_s, load.max_tpot_s), ("TTFT", ttft_s, load.max_ttft_s))
    return max((seconds / limit, quantity, seconds, limit, name) for quantity, seconds, limit in stated if limit is not None)
