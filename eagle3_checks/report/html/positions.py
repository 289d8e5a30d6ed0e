"""Acceptance along the chain: how often each drafted position is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3_checks.report.html.canvas import Box, Dot, Drawing, Label, Line, Mark, Scale
from eagle3_checks.report.html.figures import Position

WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 392, 22, 204
WIDEST = 64


def draw_positions(positions: Sequence[Position], *, chain: bool = True) -> Drawing | None:
    """Draw the share of correct drafts by position of a chain, or length of a tree's path.

    None without positions.
    """
    if not positions:
        return None
    legend = [("seen", "measured, with its interval")]
    if any(p.baseline is not None for p in positions):
        legend.append(("baseline", "baseline"))
    if any(p.floor is not None for p in positions):
        legend.append(("floor", "a drafter at the floor, every position equally hard"))
    given = ", ".join(
        f"{p.number}: {p.conditional:.2f}" for p in positions if p.conditional is not None
    )
    return Drawing(
        name="positions",
        title="Acceptance by position" if chain else "Acceptance by length of the path",
        told="share of verify steps whose draft was correct, "
        + ", ".join(f"position {p.number}: {p.seen.value:.2f}" for p in positions),
        width=WIDTH,
        height=HEIGHT,
        marks=(*_marks(positions), _axis("position in the chain" if chain else "correct drafts")),
        legend=tuple(legend),
        note=f"Given that all before were correct: {given}." if given else "",
    )


def _marks(positions: Sequence[Position]) -> Iterator[Mark]:
    y = Scale(0.0, 1.0, BOTTOM, TOP)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield Line(x1=LEFT, y1=y(share), x2=RIGHT, y2=y(share), look="grid" if share else "axis")
        yield Label(x=LEFT - 8, y=y(share) + 4, text=f"{share:.0%}", anchor="end")
    slot = (RIGHT - LEFT) / len(positions)
    half = min(WIDEST, slot * 0.6) / 2
    for index, position in enumerate(positions):
        middle = LEFT + slot * (index + 0.5)
        yield from _position(position, middle, half, y)


def _axis(name: str) -> Label:
    return Label(x=(LEFT + RIGHT) / 2, y=BOTTOM + 40, text=name, look="name")


def _position(position: Position, x: float, half: float, y: Scale) -> Iterator[Mark]:
    seen = position.seen
    top = y(seen.value)
    yield Box(
        x=x - half, y=top, width=2 * half, height=max(BOTTOM - top, 1.5), look="seen-soft", round=2
    )
    yield Line(x1=x - half, y1=top, x2=x + half, y2=top, look="seen")
    if position.floor is not None:
        line = y(position.floor)
        yield Line(x1=x - half - 7, y1=line, x2=x + half + 7, y2=line, look="floor")
    highest = top
    if seen.low is not None and seen.high is not None:
        low, high = y(seen.low), y(seen.high)
        highest = high
        yield Line(x1=x, y1=low, x2=x, y2=high, look="seen")
        for edge in (low, high):
            yield Line(x1=x - 5, y1=edge, x2=x + 5, y2=edge, look="seen")
    if position.baseline is not None:
        yield Dot(
            x=x + half * 0.6,
            y=y(position.baseline),
            look="baseline-dot",
            size=5,
            diamond=True,
            tip=f"baseline {position.baseline:.2f}",
        )
    yield Label(x=x, y=highest - 8, text=f"{seen.value:.2f}", look="value", halo=True)
    yield Label(x=x, y=BOTTOM + 18, text=str(position.number))
