"""The points of a bisect: an ordered list of drafters."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle3_checks.checkpoint.config import CONFIG
from eagle3_checks.checkpoint.hub import hub_id

_PARTS = re.compile(r"(\d+)")
_GLOB = re.compile(r"[*?\[]")


class PointError(ValueError):
    """A list that cannot be searched; the message says what to give."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One place of the list: what it is called, and how it differs from the profile."""

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted key of the profile."""
    drafter: str = ""
    """The drafter's folder or hub id."""


def checkpoints(sources: Sequence[str], *, as_given: bool = False) -> tuple[Point, ...]:
    """Return the drafters named by folders, patterns and hub ids, in order.

    A pattern gives its folders that hold a config.json, in natural order (epoch-2 before
    epoch-10). A shell expands patterns in its own order; what comes in that order is taken for
    such a list and put in the natural one too, unless `as_given`. Raises PointError.
    """
    listed: list[str] = []
    for source in sources:
        listed += _expanded(source) if _GLOB.search(source) else [source]
    if not as_given and listed == sorted(listed):
        listed.sort(key=natural)
    for source in listed:
        if hub_id(source) is None and not Path(source).expanduser().is_dir():
            raise PointError(f"{source}: no such folder, and no hub id org/name[@revision]")
    if len(listed) < 2:  # noqa: PLR2004 - two ends
        raise PointError(
            f"a bisect takes two drafters or more, and {len(listed)} is given; list folders, a "
            "pattern in quotes ('out/epoch-*'), or hub ids org/name@revision"
        )
    return tuple(
        Point(name=name, overrides={"drafter.path": _absolute(source)}, drafter=source)
        for name, source in zip(_short(listed), listed, strict=True)
    )


def natural(text: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a sorting key in which numbers count as numbers."""
    return tuple(
        (part.isdigit(), int(part) if part.isdigit() else 0, part) for part in _PARTS.split(text)
    )


def _expanded(pattern: str) -> list[str]:
    found = glob.glob(os.path.expanduser(pattern))  # noqa: PTH111, PTH207 - strings stay as written
    kept = sorted((f for f in found if (Path(f) / CONFIG).is_file()), key=natural)
    if not kept:
        raise PointError(f"{pattern}: no folder with a {CONFIG} is called so")
    return kept


def _absolute(source: str) -> str:
    path = Path(source).expanduser()
    return str(path.resolve()) if path.is_dir() else source


def _short(listed: Sequence[str]) -> list[str]:
    """Return the sources without the folders that all of them share."""
    if any(hub_id(source) for source in listed):
        return list(listed)
    parts = [Path(source).parts for source in listed]
    shared = 0
    while all(len(p) > shared + 1 and p[: shared + 1] == parts[0][: shared + 1] for p in parts):
        shared += 1
    return [str(Path(*p[shared:])) for p in parts]
