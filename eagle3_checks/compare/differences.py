"""In what two runs differ, apart from what they measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LENGTH, SPEED = "acceptance", "speed"
BOTH = frozenset({LENGTH, SPEED})
NEITHER: frozenset[str] = frozenset()

# What a setting can move. The first that a key begins with counts.
_MOVES: tuple[tuple[str, frozenset[str]], ...] = (
    ("drafter.path", NEITHER),  # the hash says whether it is another drafter
    ("target.path", BOTH),
    ("server.port", NEITHER),
    ("server.host", NEITHER),
    ("server.url", BOTH),
    ("server.sglang", NEITHER),  # what served says its version itself
    ("server.start_timeout", NEITHER),
    ("server.request_timeout", NEITHER),
    ("server.tp", frozenset({SPEED})),
    ("server.", BOTH),
    ("speculation.", BOTH),
    ("prompts.sets", NEITHER),  # their hash says whether they are others
    ("prompts.limit", NEITHER),
    ("prompts.concurrency", frozenset({LENGTH})),
    ("prompts.", BOTH),
    ("speed.", frozenset({SPEED})),
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not the same in both runs."""

    name: str
    first: str
    second: str
    moves: frozenset[str]
    """Kinds of figures that it can change: acceptance, speed."""


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return everything recorded that differs: drafter, versions, hardware, flags, prompts.

    What is recorded in one result alone counts as different only where both name it.
    """
    return tuple(_all(first, second))


def _all(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    results = first, second
    subjects = [r["subject"] for r in results]
    hashes = [(s.get("hashes") or {}).get("drafter") for s in subjects]
    if None not in hashes:
        yield from _differs("drafter (hash)", [_short_hash(h) for h in hashes], BOTH)
    else:
        yield from _differs("drafter", [s.get("drafter") for s in subjects], BOTH)
    yield from _differs("sglang", [s.get("sglang") for s in subjects], BOTH)
    surroundings = [r["environment"] for r in results]
    hardware = [s.get("hardware") for s in surroundings]
    if None not in hardware:
        yield from _differs("hardware", hardware, frozenset({SPEED}))
    prompts = [r["measurements"].get("prompts_sha256") for r in results]
    if None not in prompts:
        yield from _differs("prompts (hash)", [_short_hash(p) for p in prompts], BOTH)
    yield from _settings(first["profile"], second["profile"])
    yield from _variables(*(s.get("server_environment") or {} for s in surroundings))
    yield from _differs("python", [s.get("python") for s in surroundings], NEITHER)
    yield from _differs("eagle3-checks", [r.get("tool_version") for r in results], NEITHER)


def _settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for key in sorted(first.keys() & second.keys()):
        moves = next((m for begin, m in _MOVES if key.startswith(begin)), NEITHER)
        if moves and key != "server.env":
            yield from _differs(key, [first[key].get("value"), second[key].get("value")], moves)


def _variables(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the variables that the servers really had, wherever they were set."""
    for name in sorted(first.keys() | second.keys()):
        yield from _differs(f"variable {name}", [first.get(name), second.get(name)], BOTH)


def _differs(name: str, pair: Sequence[Any], moves: frozenset[str]) -> Iterator[Difference]:
    first, second = pair
    if first != second:
        yield Difference(name=name, first=_word(first), second=_word(second), moves=moves)


def _word(value: Any) -> str:
    if value is None or value in ("", []):
        return "none"
    if isinstance(value, list | dict | bool):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _short_hash(value: Any) -> str:
    kind, _, digits = str(value).rpartition(":")
    return f"{kind}:{digits[:12]}" if kind else digits[:12]
