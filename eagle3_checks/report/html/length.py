"""The accept length on its scale, from 1 to what the flags allow."""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_checks.report.html.canvas import Box, Dot, Drawing, Label, Line, Mark, Scale
from eagle3_checks.report.html.figures import Estimate

WIDTH, HEIGHT = 400, 92
LEFT, RIGHT, TRACK = 14, 386, 50
APART = 74
"""Distance below which the names of two marks would run into each other."""

ROOM = 108
"""What the names of both ends take."""


def draw_length(
    seen: Estimate, *, floor: float | None, baseline: Estimate | None, ceiling: float | None
) -> Drawing:
    """Draw where the accept length stands between 1 (nothing accepted) and its ceiling."""
    values = [seen.value, seen.high, floor, baseline.value if baseline else None]
    end = ceiling or max(v for v in values if v is not None) + 0.5
    scale = Scale(1.0, max(end, 1.5), LEFT, RIGHT)
    told = f"accept length {seen.value:.2f} on a scale from 1 to {scale.high:g}"
    if floor is not None:
        told += f"; floor {floor:.2f}"
    if baseline:
        told += f"; baseline {baseline.value:.2f}"
    return Drawing(
        name="length",
        title="Accept length on its scale",
        told=told,
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(_marks(seen, scale, floor, baseline)),
    )


def _marks(
    seen: Estimate, scale: Scale, floor: float | None, baseline: Estimate | None
) -> Iterator[Mark]:
    yield Box(x=LEFT, y=TRACK - 5, width=RIGHT - LEFT, height=10, look="track", round=5)
    for number in range(1, int(scale.high + 1e-9) + 1):
        x = scale(number)
        yield Line(x1=x, y1=TRACK + 9, x2=x, y2=TRACK + 14, look="axis")
        if number == 1:
            yield Label(x=x - 6, y=TRACK + 34, text="1 nothing accepted", anchor="start")
        elif number == scale.high:
            text = f"all accepted {number}"
            yield Label(x=x + 6, y=TRACK + 34, text=text, anchor="end")
        elif LEFT + ROOM < x < RIGHT - ROOM:
            yield Label(x=x, y=TRACK + 34, text=str(number))
    x = scale(seen.value)
    yield Box(x=LEFT, y=TRACK - 5, width=max(x - LEFT, 3), height=10, look="seen-soft", round=5)
    if seen.low is not None and seen.high is not None:
        low, high = scale(seen.low), scale(seen.high)
        yield Box(
            x=low, y=TRACK - 5, width=max(high - low, 2), height=10, look="seen-band", round=2
        )
    wanted = [("floor", floor), ("baseline", baseline.value if baseline else None)]
    placed = [(look, scale(value), value) for look, value in wanted if value is not None]
    crowded = len(placed) > 1 and abs(placed[0][1] - placed[1][1]) < APART
    for look, place, value in placed:
        yield Line(x1=place, y1=TRACK - 16, x2=place, y2=TRACK + 12, look=look)
        left = crowded and place == min(p for _, p, _ in placed)
        anchor = "middle"
        if crowded:
            anchor = "end" if left else "start"
        anchor = _within(place, anchor)
        yield Label(
            x=place + {"end": 4, "start": -4, "middle": 0}[anchor] * (-1 if crowded else 1),
            y=TRACK - 23,
            text=f"{look} {value:.2f}",
            look=f"{look}-text",
            anchor=anchor,
        )
    yield Dot(x=x, y=TRACK, look="seen-dot", size=7, tip=f"measured {seen.value:.2f}")


def _within(place: float, anchor: str) -> str:
    """Keep a name inside the drawing."""
    if place < LEFT + APART / 2:
        return "start"
    if place > RIGHT - APART / 2:
        return "end"
    return anchor
