"""The search for a boundary in an ordered list whose two ends are known to differ.

Pure: what a point is and how it is measured is the caller's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Side(StrEnum):
    """Which end of the list a point is like."""

    FIRST = "first"
    LAST = "last"
    OPEN = "open"
    """It cannot be told: too noisy, or no server."""


Ask = Callable[[int, int], Side]
"""`ask(index, number)`: measure a point for the first or the second time."""


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Where the list turns from one side to the other."""

    before: int
    """The last point known to be like the first end."""
    after: int
    """The first point known to be like the last end."""
    skipped: tuple[int, ...] = ()
    """Points between the two that could not be told."""
    contradicted: tuple[int, ...] = ()
    """Points whose second measurement was not on the side of the first."""
    confirmed: bool = True
    """Whether a second measurement of `after` agreed."""

    @property
    def exact(self) -> bool:
        """Whether one point is to blame, and not a range."""
        return self.confirmed and not self.skipped


def search(count: int, ask: Ask) -> Boundary:
    """Find the boundary among `count` points; the ends are on their sides already.

    What is to be blamed is measured a second time before it is. A point that cannot be told, or
    that is told differently the second time, is left out, and the answer may be a range. Without
    such points it takes at most ceil(log2(count - 1)) + 1 measurements.
    """
    low, highs = 0, [count - 1]
    out: set[int] = set()
    contradicted: list[int] = []
    while True:
        high = highs[-1]
        left = [i for i in range(low + 1, high) if i not in out]
        if left:
            middle = left[(len(left) - 1) // 2]
            side = ask(middle, 1)
            if side is Side.FIRST:
                low = middle
            elif side is Side.LAST:
                highs.append(middle)
            else:
                out.add(middle)
            continue
        agreed = ask(high, 2) is Side.LAST
        if agreed or len(highs) == 1:
            if not agreed:
                contradicted.append(high)
            return Boundary(
                before=low,
                after=high,
                skipped=_between(out, low, high),
                contradicted=tuple(contradicted),
                confirmed=agreed,
            )
        contradicted.append(highs.pop())
        out.add(high)


def _between(points: Iterable[int], low: int, high: int) -> tuple[int, ...]:
    return tuple(sorted(i for i in points if low < i < high))
