"""Accept length and acceptance by position over past runs of the same deployment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3_checks.report.html.canvas import (
    Dot,
    Drawing,
    Label,
    Line,
    Mark,
    Path,
    Scale,
    short,
    ticks,
)
from eagle3_checks.report.html.figures import Run

WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 386, 24, 204
APART = 14
"""Labels of lines that meet stay so far apart."""
LAST = 30
"""Runs shown, the latest ones."""


def draw_trend(runs: Sequence[Run], *, floor: float | None) -> Drawing | None:
    """Draw the latest runs from left to right, this one last; None without earlier runs."""
    shown = runs[-LAST:]
    if len(shown) < 2:  # noqa: PLR2004 - a trend takes two
        return None
    legend = [("seen", "accept length, with its interval")]
    if floor is not None:
        legend.append(("floor", f"floor {floor:.2f}"))
    left = len(runs) - len(shown)
    return Drawing(
        name="trend",
        title="Trend over past runs",
        told=", ".join(f"{r.created[:10]}: {r.seen.value:.2f}" for r in shown),
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(_marks(shown, floor)),
        legend=tuple(legend),
        note=f"{left} earlier runs are not shown." if left else "",
    )


def draw_trend_by_position(runs: Sequence[Run]) -> Drawing | None:
    """Draw a line for each position of the chain over the latest runs; None without earlier ones.

    A position that falls while those before it hold says where in the chain something changed.
    """
    shown = [run for run in runs[-LAST:] if run.positions]
    if len(shown) < 2:  # noqa: PLR2004 - a trend takes two
        return None
    told = "; ".join(
        f"{r.created[:10]}: " + ", ".join(f"{share:.2f}" for share in r.positions) for r in shown
    )
    return Drawing(
        name="trend-by-position",
        title="Trend by position",
        told=f"share of correct drafts at position 1, 2, … of each run: {told}",
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(_by_position(shown)),
        legend=(("seen", "verify steps whose draft at the position was correct"),),
    )


def _by_position(runs: Sequence[Run]) -> Iterator[Mark]:
    y = Scale(0.0, 1.0, BOTTOM, TOP)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield Line(x1=LEFT, y1=y(share), x2=RIGHT, y2=y(share), look="grid" if share else "axis")
        yield Label(x=LEFT - 8, y=y(share) + 4, text=f"{share:.0%}", anchor="end")
    x = Scale(0, len(runs) - 1, LEFT + 18, RIGHT - 22)
    yield from _versions(runs, x)
    lowest = 0.0
    for position in range(max(len(run.positions) for run in runs)):
        at = [
            (x(index), y(run.positions[position]), run)
            for index, run in enumerate(runs)
            if position < len(run.positions)
        ]
        yield Path(points=[(a, b) for a, b, _ in at], look="seen-line")
        for a, b, run in at:
            tip = f"{run.created[:16]} {run.sglang}: {run.positions[position]:.2f}"
            yield Dot(x=a, y=b, look="seen-dot" if run.this else "seen-hollow", size=4, tip=tip)
        a, b, _ = at[-1]
        lowest = max(b + 4, lowest + APART)
        yield Label(x=a + 9, y=lowest, text=str(position + 1), look="value", anchor="start")
    yield from _dates(runs)


def _dates(runs: Sequence[Run]) -> Iterator[Mark]:
    yield Label(x=LEFT, y=BOTTOM + 18, text=runs[0].created[:10], anchor="start")
    yield Label(x=RIGHT, y=BOTTOM + 18, text=runs[-1].created[:10], anchor="end")
    yield Label(x=(LEFT + RIGHT) / 2, y=BOTTOM + 40, text="runs, this one last", look="name")


def _marks(runs: Sequence[Run], floor: float | None) -> Iterator[Mark]:
    values = [v for r in runs for v in (r.seen.value, r.seen.low, r.seen.high) if v is not None]
    low, high = min(*values, floor or values[0]), max(*values, floor or values[0])
    room = max((high - low) * 0.15, 0.1)
    y = Scale(max(1.0, low - room), high + room, BOTTOM, TOP)
    for value in ticks(y.low, y.high, 4):
        yield Line(x1=LEFT, y1=y(value), x2=RIGHT, y2=y(value), look="grid")
        yield Label(x=LEFT - 8, y=y(value) + 4, text=short(value), anchor="end")
    yield Line(x1=LEFT, y1=BOTTOM, x2=RIGHT, y2=BOTTOM, look="axis")
    if floor is not None:
        yield Line(x1=LEFT, y1=y(floor), x2=RIGHT, y2=y(floor), look="floor")
    x = Scale(0, len(runs) - 1, LEFT + 18, RIGHT - 22)
    yield from _versions(runs, x)
    points = [(x(i), y(run.seen.value)) for i, run in enumerate(runs)]
    yield Path(points=points, look="seen-line")
    for index, run in enumerate(runs):
        if run.seen.low is not None and run.seen.high is not None:
            yield Line(
                x1=x(index), y1=y(run.seen.low), x2=x(index), y2=y(run.seen.high), look="seen"
            )
        tip = f"{run.created[:16]} {run.sglang}: {run.seen.value:.2f}"
        look = "seen-dot" if run.this else "seen-hollow"
        yield Dot(x=x(index), y=y(run.seen.value), look=look, size=6 if run.this else 4, tip=tip)
    last = runs[-1].seen
    yield Label(
        x=x(len(runs) - 1), y=y(last.high if last.high is not None else last.value) - 9,
        text=f"{last.value:.2f}", look="value", halo=True,
    )  # fmt: skip
    yield from _dates(runs)


def _versions(runs: Sequence[Run], x: Scale) -> Iterator[Mark]:
    """Mark where the SGLang version changed."""
    before = runs[0].sglang
    for index, run in enumerate(runs):
        if index and run.sglang and run.sglang != before:
            here = (x(index - 1) + x(index)) / 2
            late = here > (LEFT + RIGHT) * 0.6
            yield Line(x1=here, y1=TOP - 12, x2=here, y2=BOTTOM, look="even")
            yield Label(
                x=here - 6 if late else here + 6,
                y=TOP - 4,
                text=f"SGLang {run.sglang}{' →' if late else ''}",
                look="even-text",
                anchor="end" if late else "start",
                halo=True,
            )
        before = run.sglang or before
