"""Marks of a drawing and scales; the template turns marks into SVG, colours are the page's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Line:
    """A straight line."""

    kind: ClassVar = "line"
    x1: float
    y1: float
    x2: float
    y2: float
    look: str


@dataclass(frozen=True, kw_only=True)
class Path:
    """A line through points."""

    kind: ClassVar = "path"
    points: Sequence[tuple[float, float]]
    look: str

    @property
    def data(self) -> str:
        """The ``d`` attribute."""
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in self.points)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle."""

    kind: ClassVar = "box"
    x: float
    y: float
    width: float
    height: float
    look: str
    round: float = 0


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A disc, or a diamond that stands on its tip."""

    kind: ClassVar = "dot"
    x: float
    y: float
    look: str
    size: float = 4
    diamond: bool = False
    tip: str = ""
    """Shown where a pointer rests on it."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """A text; `anchor` is start, middle or end."""

    kind: ClassVar = "label"
    x: float
    y: float
    text: str
    look: str = "tick"
    anchor: str = "middle"
    halo: bool = False
    tip: str = ""


Mark = Line | Path | Box | Dot | Label


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Marks on a canvas, drawn in order."""

    name: str
    title: str
    told: str
    """The same in words, for those who do not see it."""
    width: int
    height: int
    marks: tuple[Mark, ...]
    legend: tuple[tuple[str, str], ...] = ()
    """Look and meaning of what is drawn."""
    note: str = ""


@dataclass(frozen=True)
class Scale:
    """Maps values to places, linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside stay at the rim."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


@dataclass(frozen=True)
class LogScale:
    """Maps values to places so that equal ratios are equal distances."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value above zero; values outside stay at the rim."""
        linear = Scale(math.log(self.low), math.log(self.high), self.start, self.end)
        return linear(math.log(max(value, self.low)))


def decades(low: float, high: float) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, 20 … between two values above zero; powers of ten alone where wide."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1,) if last - first > 4 else (1, 2, 5)  # noqa: PLR2004 - more would crowd
    found = (step * 10.0**power for power in range(first, last + 1) for step in steps)
    return tuple(value for value in found if low <= value <= high)


def ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Return round values between two, about `count` of them."""
    span = high - low
    if span <= 0:
        return (low,)
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(round(i * step, 10) for i in range(first, last + 1))


def above(value: float) -> float:
    """Return the round value at or above one, for the end of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if m * power >= value)


def short(value: float) -> str:
    """Write a number for an axis: 0.5, 2, 1500."""
    return f"{value:g}"


def clipped(text: str, length: int) -> str:
    """Return a text cut to a length, with the cut shown."""
    return text if len(text) <= length else text[: length - 1] + "…"
