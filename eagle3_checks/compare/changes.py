"""What two runs measured, side by side; a change is one that the intervals show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from eagle3_checks.compare.differences import LENGTH, SPEED

State = Literal["higher", "lower", "no change", "cannot be told"]
Raw = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure in both runs."""

    name: str
    kind: str
    first: Raw
    second: Raw
    state: State
    """``no change`` where the intervals overlap."""

    @property
    def changed(self) -> bool:
        """Whether the intervals lie apart."""
        return self.state in ("higher", "lower")

    @property
    def share(self) -> float | None:
        """The second value against the first, as in -0.1 for a tenth less."""
        value: float = self.first["value"]
        return self.second["value"] / value - 1 if value else None


def changes(first: Raw, second: Raw) -> tuple[Change, ...]:
    """Return every figure that both runs have."""
    own, other = dict(_figures(first["measurements"])), dict(_figures(second["measurements"]))
    return tuple(
        Change(
            name=name,
            kind=kind,
            first=own[name, kind],
            second=other[name, kind],
            state=_state(own[name, kind], other[name, kind]),
        )
        for name, kind in own
        if (name, kind) in other
    )


def _figures(measured: Raw) -> Iterator[tuple[tuple[str, str], Raw]]:
    accepted = measured.get("acceptance") or {}
    for key, name in (("accept_length", "accept length"), ("accept_rate", "accept rate")):
        if accepted.get(key):
            yield (name, LENGTH), accepted[key]
    for depth in accepted.get("depths") or ():
        yield (f"position {depth['drafts']}", LENGTH), depth["joint"]
    speed = measured.get("throughput") or {}
    for stream in speed.get("streams") or ():
        if stream.get("interval"):
            yield (f"tok/s at {stream['concurrency']}", SPEED), stream["interval"]
    for up in speed.get("speed_ups") or ():
        yield (f"speed-up at {up['concurrency']}", SPEED), up["ratio"]


def _state(first: Raw, second: Raw) -> State:
    ends = first["low"], first["high"], second["low"], second["high"]
    if None in ends:  # an interval without an end
        return "cannot be told"
    if second["low"] > first["high"]:
        return "higher"
    return "lower" if second["high"] < first["low"] else "no change"
