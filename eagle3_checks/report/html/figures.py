"""Figures of a result for drawing: what is there, in one form; absent ones are empty.

Results of older versions and attached servers lack most of them, so nothing here insists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagle3_checks.report.floors import floor_of, floors_by_concurrency


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value, and its interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None


@dataclass(frozen=True, kw_only=True)
class Position:
    """Acceptance at one position of a chain, or of paths of one length in a tree."""

    number: int
    seen: Estimate
    conditional: float | None
    baseline: float | None
    floor: float | None
    """Share at this position of a drafter at the floor to which every position is equally hard."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Accept length over some of the prompts."""

    name: str
    seen: Estimate
    prompts: int
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Output speed at one concurrency, tokens per second."""

    concurrency: int
    seen: Estimate
    base: Estimate | None
    speedup: Estimate | None
    floor: float | None
    wanted_speedup: float | None = None
    first_token: Mapping[str, float] | None = None
    """``p50`` and ``p99`` in seconds."""
    between_tokens: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the history."""

    created: str
    sglang: str
    seen: Estimate
    positions: tuple[float, ...] = ()
    """Share of correct drafts at position 1, 2, … of the chain; empty where it was not kept."""
    this: bool = False


def estimate(raw: Any) -> Estimate | None:
    """Read an interval, or a bare number; None for anything else."""
    if isinstance(raw, Mapping) and isinstance(raw.get("value"), int | float):
        return Estimate(
            value=raw["value"], low=raw.get("low"), high=raw.get("high"), level=raw.get("level")
        )
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return Estimate(value=float(raw))
    return None


def acceptance(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the measured acceptance, or nothing."""
    return result["measurements"].get("acceptance") or {}


def accept_length(result: Mapping[str, Any]) -> Estimate | None:
    """Return the pooled accept length."""
    return estimate(acceptance(result).get("accept_length"))


def setting(result: Mapping[str, Any], key: str) -> Any:
    """Return a setting of the profile, or None."""
    return result["profile"].get(key, {}).get("value")


def floor(result: Mapping[str, Any]) -> float | None:
    """Return the floor of the accept length."""
    return floor_of(result, "ACC001")


def ceiling(result: Mapping[str, Any]) -> float | None:
    """Return the greatest accept length that the speculation flags allow."""
    steps, tokens = (setting(result, f"speculation.{k}") for k in ("steps", "draft_tokens"))
    if isinstance(steps, int) and isinstance(tokens, int):
        return min(steps, tokens - 1) + 1.0
    return None


def baseline(result: Mapping[str, Any]) -> Estimate | None:
    """Return the accept length of the baseline."""
    found = result["measurements"].get("baseline") or {}
    return estimate(found.get("accept_length"))


def positions(result: Mapping[str, Any]) -> tuple[Position, ...]:
    """Return acceptance by position, with intervals where they were measured."""
    measured = acceptance(result)
    plain: Sequence[Any] = measured.get("per_position") or ()
    detailed: Sequence[Any] = measured.get("depths") or ()
    entries = [_detail(e) for e in detailed] or [(estimate(p), None) for p in plain]
    shares = [seen.value if seen else 0.0 for seen, _ in entries]
    before = (result["measurements"].get("baseline") or {}).get("per_position") or ()
    wanted = at_floor(floor(result), len(entries))
    found = []
    for index, (seen, conditional) in enumerate(entries):
        if seen is None:
            return ()
        base = estimate(before[index]) if index < len(before) else None
        found.append(
            Position(
                number=index + 1,
                seen=seen,
                conditional=conditional if conditional is not None else _given(shares, index),
                baseline=base.value if base else None,
                floor=wanted[index] if wanted else None,
            )
        )
    return tuple(found)


def is_chain(result: Mapping[str, Any]) -> bool:
    """Whether drafts form a chain, so that depths are positions."""
    return bool(acceptance(result).get("per_position"))


def at_floor(floor: float | None, positions: int) -> tuple[float, ...]:
    """Return p, p², … with ``1 + p + p² + … = floor``: every position equally hard."""
    if floor is None or not positions or not 1 <= floor <= positions + 1:
        return ()
    low, high = 0.0, 1.0
    for _ in range(50):
        p = (low + high) / 2
        if 1 + sum(p**k for k in range(1, positions + 1)) < floor:
            low = p
        else:
            high = p
    return tuple(high**k for k in range(1, positions + 1))


def groups(result: Mapping[str, Any], key: str) -> tuple[Group, ...]:
    """Return the accept length of all prompts and by `key` (``by_set``, ``by_prompt_tokens``).

    A single group is all prompts over again: nothing is returned then.
    """
    measured = acceptance(result)
    found = tuple(_groups(measured.get(key) or ()))
    whole = accept_length(result)
    if len(found) < 2 or whole is None:  # noqa: PLR2004 - two make a comparison
        return ()
    total = Group(name="all prompts", seen=whole, prompts=measured["prompts"], whole=True)
    return (total, *found)


def speeds(result: Mapping[str, Any]) -> tuple[Speed, ...]:
    """Return output speed by concurrency, lowest first."""
    measured = result["measurements"].get("throughput") or {}
    floors = floors_by_concurrency(result, "SPD001")
    gains = floors_by_concurrency(result, "SPD004")
    base = {e["concurrency"]: _speed(e) for e in measured.get("base") or ()}
    ups = {e["concurrency"]: estimate(e.get("ratio")) for e in measured.get("speed_ups") or ()}
    found = []
    for stream in measured.get("streams") or ():
        seen, concurrency = _speed(stream), stream["concurrency"]
        if seen is None:
            continue
        before, up = base.get(concurrency), ups.get(concurrency)
        if up is None and before and before.value:
            up = Estimate(value=seen.value / before.value)
        found.append(
            Speed(
                concurrency=concurrency,
                seen=seen,
                base=before,
                speedup=up,
                floor=floors.get(str(concurrency)),
                wanted_speedup=gains.get(str(concurrency)),
                first_token=stream.get("first_token"),
                between_tokens=stream.get("between_tokens"),
            )
        )
    return tuple(sorted(found, key=lambda s: s.concurrency))


def break_even(result: Mapping[str, Any]) -> float | None:
    """Return the concurrency from which speculation no longer pays, where it was found."""
    measured = result["measurements"].get("throughput") or {}
    found = estimate(measured.get("break_even"))
    return found.value if found else None


def drift(result: Mapping[str, Any]) -> float | None:
    """Return how far repeated measurements of speed lay apart, where they were repeated."""
    ups = (result["measurements"].get("throughput") or {}).get("speed_ups") or ()
    found = (estimate(up.get("drift")) for up in ups)
    return next((seen.value for seen in found if seen), None)


def history(result: Mapping[str, Any]) -> tuple[Run, ...]:
    """Return earlier runs and this one, oldest first; nothing where there are no earlier ones."""
    earlier = [
        Run(
            created=str(e.get("recorded", "")),
            sglang=str(e.get("sglang") or ""),
            seen=seen,
            positions=tuple(e.get("per_position") or ()),
        )
        for e in result["measurements"].get("history") or ()
        if (seen := _past(e))
    ]
    here = accept_length(result)
    if not earlier or here is None:
        return ()
    sglang = str(result["subject"].get("sglang") or "")
    this = Run(
        created=str(result.get("created", "")),
        sglang=sglang,
        seen=here,
        positions=tuple(acceptance(result).get("per_position") or ()),
        this=True,
    )
    return (*earlier, this)


def _past(entry: Mapping[str, Any]) -> Estimate | None:
    value = entry.get("accept_length")
    if not isinstance(value, int | float):
        return None
    return Estimate(value=value, low=entry.get("low"), high=entry.get("high"))


def _detail(entry: Mapping[str, Any]) -> tuple[Estimate | None, float | None]:
    conditional = estimate(entry.get("conditional"))
    return estimate(entry.get("joint")), conditional.value if conditional else None


def _given(shares: Sequence[float], index: int) -> float | None:
    before = shares[index - 1] if index else 1.0
    return shares[index] / before if before else None


def _groups(entries: Sequence[Mapping[str, Any]]) -> Iterator[Group]:
    for entry in entries:
        seen = estimate(entry.get("accept_length"))
        if seen:
            yield Group(name=str(entry["name"]), seen=seen, prompts=int(entry.get("prompts", 0)))


def _speed(entry: Mapping[str, Any]) -> Estimate | None:
    return estimate(entry.get("interval")) or estimate(entry.get("tokens_per_second"))
