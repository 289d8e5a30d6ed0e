"""What the values of a profile may be, alone and beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eagle3_checks.profile import Profile, Speculation

MAX_PORT = 65535
_MINIMA: Mapping[str, float] = {
    "server.port": 0,
    "server.tp": 1,
    "server.gpus": 0,
    **{f"server.{what}_timeout": 1 for what in ("start", "stall", "request", "hang")},
    "speculation.steps": 1,
    "speculation.topk": 1,
    "speculation.draft_tokens": 2,
    "prompts.limit": 0,
    "prompts.concurrency": 1,
    **{f"{section}.max_new_tokens": 2 for section in ("prompts", "speed")},
    "speed.concurrencies": 1,
    "speed.requests": 1,
    **{f"replay.{what}": 0 for what in ("prompts", "max_gigabytes")},
    "wiring.reference_gib": 0,
    "parity.prompts": 0,
    "parity.max_new_tokens": 4,
    "judging.error": 0.0001,
    "judging.margin": 0,
}
_ABOVE: Mapping[str, float] = {
    "floors.accept_length": 1,
    "floors.accept_rate": 0,
    "floors.tokens_per_second": 0,
    "floors.speed_up": 0,
}
"""What floors must lie above: a drafter that is never right, or no output at all, reaches these."""
_BELOW: Mapping[str, float] = {"judging.error": 0.5, "judging.margin": 1}


def faults(profile: Profile, flat: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values cannot be used, and why; `flat` holds the profile by key."""
    spec = profile.speculation
    for key, value in flat.items():
        yield from _out_of_range(key, value)
    twice = {c for c in profile.speed.concurrencies if profile.speed.concurrencies.count(c) > 1}
    if twice:
        yield ("speed.concurrencies", f"{min(twice)} is named twice")
    if profile.server.port > MAX_PORT:
        yield ("server.port", f"{profile.server.port} is above the largest port, {MAX_PORT}")
    wanted = _draft_tokens_problem(spec)
    if wanted:
        yield ("speculation.draft_tokens", wanted)
    floor = profile.floors.accept_length
    if floor is not None and floor > spec.max_accept_length:
        message = (
            f"{floor} cannot be reached: with {spec.steps} steps the accept length is at most "
            f"{spec.max_accept_length} (drafts on one path, plus the bonus token)"
        )
        yield ("floors.accept_length", message)
    rate = profile.floors.accept_rate
    if rate is not None and rate > 1:
        yield ("floors.accept_rate", f"{rate} is above 1; give a share, 0.45 for 45 %")
    for key, entry in profile.unmeasured_floors:
        listed = ", ".join(str(c) for c in profile.speed.concurrencies)
        yield (key, f"concurrency {entry!r} is not measured; speed.concurrencies has {listed}")


def _out_of_range(key: str, value: Any) -> Iterator[tuple[str, str]]:
    numbers = value.values() if isinstance(value, Mapping) else value
    for number in numbers if isinstance(value, (tuple, Mapping)) else (value,):
        if number is None:
            continue
        if key in _MINIMA and number < _MINIMA[key]:
            yield (key, f"{number} is below the smallest sensible value, {_MINIMA[key]}")
        if key in _ABOVE and number <= _ABOVE[key]:
            yield (key, f"{number} is reached by every server; give more than {_ABOVE[key]}")
        if key in _BELOW and number >= _BELOW[key]:
            yield (key, f"{number} leaves nothing to judge; give less than {_BELOW[key]}")


def _draft_tokens_problem(spec: Speculation) -> str:
    """Say why the draft tokens do not fit steps and topk, or nothing.

    A chain verifies its root and one draft a step; a tree has at most topk + (steps - 1) topk²
    candidates (sglang/srt/speculative/spec_utils.py, ``organize_draft_results``).
    """
    if spec.chain and spec.draft_tokens != spec.steps + 1:
        return (
            f"{spec.draft_tokens} does not fit steps = {spec.steps} at topk = 1: a chain has "
            f"steps + 1 = {spec.steps + 1} draft tokens"
        )
    candidates = spec.topk + (spec.steps - 1) * spec.topk**2
    if spec.draft_tokens > candidates + 1:
        return (
            f"{spec.draft_tokens} is more than the tree holds: topk + (steps - 1) x topk² + 1 = "
            f"{candidates + 1}"
        )
    return ""
