"""What a repackaging changes, refuses and leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that is changed."""

    what: str
    """The field or the tensors, as in ``config.json: architectures``."""
    old: str
    new: str
    why: str
    """What makes it certain."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A fix that would be a guess."""

    what: str
    why: str
    instead: str
    """What the user can do."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All of one repackaging."""

    config: Mapping[str, Any]
    """The new config.json, without the record of what was done."""
    renames: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Tensor names, old to new."""
    d2t: tuple[str, tuple[int, ...]] | None = None
    """Name (old) and values of a d2t that is written as int64."""
    changes: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
