"""What the zoo knows of a planted defect, and of a healthy variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eagle3_checks.reference.defects.planting import Plant, copy_pair

Where = Literal["file", "config", "target", "flag", "environment", "server"]
"""What is changed: the drafter's weights, its config.json, the target, a launch flag, a variable of
the server, or the running server itself."""
NEWEST = "0.5.23"


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A change of the healthy pair, or of how it is served."""

    name: str
    title: str
    where: Where
    plant: Plant = copy_pair
    """`plant(pair, out)`: write the changed copy of `pair` into `out`, which must not exist."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of the profile to override, by dotted key."""
    sglang: str = NEWEST
    """The SGLang version by which its files are judged."""
    damage: str = ""
    """Name of the damage done to the running server (`EAGLE3_DAMAGE`)."""
    served: bool = False
    """Whether the served rows of the matrix have it: the server starts and answers."""
    warns: tuple[str, ...] = ()
    """Rules that warn of its files and flags; of a healthy variant, those that may."""


@dataclass(frozen=True, kw_only=True)
class Defect(Planted):
    """A known fault, and how to give it to a healthy pair."""

    kind: str
    """Id of the kind of fault (`kinds.toml`)."""
    cause: str
    """Name of the cause that the diagnosis must put first."""
    codes: tuple[str, ...] = ()
    """Rules that fail as errors on its files and flags, before a server is started."""
    served_codes: tuple[str, ...] = ("ACC001",)
    """Rules that fail, among others, where it is served."""
    healthy_from: str | None = None
    """The SGLang version from which on this is no defect but a look-alike that fires nothing."""

    @property
    def silent(self) -> bool:
        """Whether no error tells of it before a server is started."""
        return not self.codes


@dataclass(frozen=True, kw_only=True)
class Variant(Planted):
    """A pair that is healthy, though it looks different: an alarm about it is a false one."""
