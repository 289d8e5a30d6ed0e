"""The probe's reports of drafted trees, which it writes where EAGLE3_PROBE_DRAFTS asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.server.probe_facts import read_lines

DRAFTS = "EAGLE3_PROBE_DRAFTS"
"""Variable of the server: how many trees each of its processes reports."""


@dataclass(frozen=True, kw_only=True)
class Likeliest:
    """The likeliest draft ids after one branch, with their logits."""

    ids: tuple[int, ...]
    logits: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DraftSeen:
    """The tree that one request's verify step was given."""

    rid: str
    length: int
    """Tokens verified before; the last of them is node 0."""
    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    top: tuple[tuple[Likeliest, ...], ...]
    """By step, then by branch; empty where CUDA graphs hide them."""


def read_drafts(prefix: Path) -> dict[str, list[DraftSeen]]:
    """Return the trees of each request in the order they were drafted in; rank 0's alone."""
    found: dict[str, list[DraftSeen]] = {}
    for line in read_lines(prefix):
        if line.get("fact") == "draft" and not line.get("rank"):
            seen = _draft(line)
            found.setdefault(seen.rid, []).append(seen)
    return found


def _draft(line: Mapping[str, Any]) -> DraftSeen:
    return DraftSeen(
        rid=str(line["rid"]),
        length=int(line["length"]),
        tokens=tuple(line["tokens"]),
        parents=tuple(line["parents"]),
        top=tuple(
            tuple(Likeliest(ids=tuple(b["ids"]), logits=tuple(b["logits"])) for b in step)
            for step in line["top"]
        ),
    )
