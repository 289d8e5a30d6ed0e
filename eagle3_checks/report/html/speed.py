"""Output speed against concurrency, with and without speculation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from eagle3_checks.report.html.canvas import (
    Dot,
    Drawing,
    Label,
    Line,
    LogScale,
    Mark,
    Path,
    Scale,
    above,
    decades,
    short,
    ticks,
)
from eagle3_checks.report.html.figures import Speed

WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 384, 26, 204
CLOSE = 32
"""A floor so near above a point would run through its figure."""


def draw_speed(speeds: Sequence[Speed]) -> Drawing | None:
    """Draw tokens per second at each concurrency, both logarithmic; None without figures."""
    shown = [s for s in speeds if s.seen.value > 0]
    if not shown:
        return None
    legend = [("seen", "with speculation")]
    if any(s.base for s in shown):
        legend.append(("baseline", "without"))
    if any(s.floor for s in shown):
        legend.append(("floor", "floor"))
    return Drawing(
        name="speed",
        title="Output speed by concurrency",
        told=", ".join(f"{s.seen.value:.1f} tok/s at {s.concurrency}" for s in shown),
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(_speeds(shown)),
        legend=tuple(legend),
        note="Logarithmic: equal distances are equal speed-ups."
        if any(s.base for s in shown)
        else "",
    )


def draw_speedup(
    speeds: Sequence[Speed], break_even: float | None = None, drift: float | None = None
) -> Drawing | None:
    """Draw the speed-up over no speculation; None where the base was not measured.

    `drift` is how far repeated measurements lay apart, as a share of the speed.
    """
    shown = [s for s in speeds if s.speedup]
    if not shown:
        return None
    if break_even is None:
        break_even = crossing(shown)
    note = ""
    if break_even is not None:
        streams = short(round(break_even, 1))
        note = f"From about {streams} requests at once, speculation no longer pays. "
    if drift is not None:
        apart = f"{drift:.1%}".replace("%", " %")
        note += f"Measured again, speeds differed by {apart}, which the intervals hold."
    return Drawing(
        name="speedup",
        title="Speed-up over no speculation",
        told=", ".join(f"x {s.speedup.value:.2f} at {s.concurrency}" for s in shown if s.speedup),
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(_speedups(shown, break_even)),
        legend=(
            ("seen", "measured"),
            ("even", "no gain"),
            *([("floor", "floor")] if any(s.wanted_speedup for s in shown) else []),
        ),
        note=note.strip(),
    )


def crossing(speeds: Sequence[Speed]) -> float | None:
    """Return where the speed-up falls through 1, between the concurrencies measured."""
    known = [(s.concurrency, s.speedup.value) for s in speeds if s.speedup]
    for (before, over), (after, under) in pairwise(known):
        if over >= 1 > under:
            share = (over - 1) / (over - under)
            return float(before * (after / before) ** share)
    return None


def _across(speeds: Sequence[Speed]) -> LogScale:
    first, last = speeds[0].concurrency, speeds[-1].concurrency
    if first == last:
        return LogScale(first / 2, last * 2, LEFT + 34, RIGHT - 22)
    return LogScale(first, last, LEFT + 34, RIGHT - 22)


def _frame(speeds: Sequence[Speed], x: LogScale, unit: str) -> Iterator[Mark]:
    yield Line(x1=LEFT, y1=BOTTOM, x2=RIGHT, y2=BOTTOM, look="axis")
    for speed in speeds:
        yield Label(x=x(speed.concurrency), y=BOTTOM + 18, text=str(speed.concurrency))
    yield Label(x=(LEFT + RIGHT) / 2, y=BOTTOM + 40, text="requests at once", look="name")
    yield Label(x=2, y=TOP - 12, text=unit, anchor="start")


def _speeds(speeds: Sequence[Speed]) -> Iterator[Mark]:
    figures = [s.seen.value for s in speeds] + [s.floor for s in speeds if s.floor]
    figures += [s.base.value for s in speeds if s.base and s.base.value > 0]
    y = LogScale(min(figures) / 1.6, max(figures) * 1.5, BOTTOM, TOP)
    for value in decades(y.low, y.high):
        yield Line(x1=LEFT, y1=y(value), x2=RIGHT, y2=y(value), look="grid")
        yield Label(x=LEFT - 8, y=y(value) + 4, text=short(value), anchor="end")
    x = _across(speeds)
    yield from _frame(speeds, x, "tok/s")
    base = [(x(s.concurrency), y(s.base.value), s.base.value) for s in speeds if s.base]
    if base:
        yield Path(points=[(a, b) for a, b, _ in base], look="baseline-line")
    for a, b, value in base:
        tip = f"{value:.1f} tok/s without"
        yield Dot(x=a, y=b, look="baseline-dot", size=5, diamond=True, tip=tip)
    yield Path(points=[(x(s.concurrency), y(s.seen.value)) for s in speeds], look="seen-line")
    for speed in speeds:
        yield from _speed(speed, x(speed.concurrency), y)


def _speed(speed: Speed, x: float, y: LogScale) -> Iterator[Mark]:
    if speed.floor:
        line = y(speed.floor)
        yield Line(x1=x - 16, y1=line, x2=x + 16, y2=line, look="floor")
    if speed.seen.low and speed.seen.high:
        yield Line(x1=x, y1=y(speed.seen.low), x2=x, y2=y(speed.seen.high), look="seen")
    here = y(speed.seen.value)
    yield Dot(x=x, y=here, look="seen-dot", size=5, tip=f"{speed.seen.value:.1f} tok/s")
    text = f"{speed.seen.value:.{0 if speed.seen.value >= 100 else 1}f}"  # noqa: PLR2004 - 3 digits
    near = speed.floor is not None and 0 < here - y(speed.floor) < CLOSE
    over = not near and not (speed.base and speed.base.value > speed.seen.value)
    yield Label(x=x, y=here - 11 if over else here + 20, text=text, look="value", halo=True)


def _speedups(speeds: Sequence[Speed], break_even: float | None) -> Iterator[Mark]:
    ups = [(s.concurrency, s.speedup) for s in speeds if s.speedup]
    highest = max(up.high if up.high is not None else up.value for _, up in ups)
    y = Scale(0.0, above(max(highest * 1.1, 1.5)), BOTTOM, TOP)
    for value in ticks(0.0, y.high, 4):
        yield Line(x1=LEFT, y1=y(value), x2=RIGHT, y2=y(value), look="grid")
        yield Label(x=LEFT - 8, y=y(value) + 4, text=short(value), anchor="end")
    x = _across(speeds)
    yield from _frame(speeds, x, "times")
    yield Line(x1=LEFT, y1=y(1.0), x2=RIGHT, y2=y(1.0), look="even strong")
    if break_even is not None and break_even > 0:
        here = x(break_even)
        left = here > WIDTH / 2
        yield Line(x1=here, y1=y(1.0), x2=here, y2=BOTTOM, look="even")
        yield Label(
            x=here - 6 if left else here + 6,
            y=BOTTOM - 9,
            text=f"break-even {short(round(break_even, 1))}",
            look="even-text",
            anchor="end" if left else "start",
            halo=True,
        )
    for speed in speeds:
        if speed.wanted_speedup:
            a, line = x(speed.concurrency), y(speed.wanted_speedup)
            yield Line(x1=a - 16, y1=line, x2=a + 16, y2=line, look="floor")
    yield Path(points=[(x(c), y(up.value)) for c, up in ups], look="seen-line")
    for concurrency, up in ups:
        a, top = x(concurrency), up.value
        if up.low is not None and up.high is not None:
            top = up.high
            yield Line(x1=a, y1=y(up.low), x2=a, y2=y(up.high), look="seen")
        yield Dot(x=a, y=y(up.value), look="seen-dot", size=5, tip=f"x {up.value:.2f}")
        yield Label(x=a, y=y(top) - 10, text=f"{up.value:.2f}", look="value", halo=True)
