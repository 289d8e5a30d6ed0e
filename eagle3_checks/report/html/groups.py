"""The accept length of groups of prompts, one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3_checks.report.html.canvas import (
    Dot,
    Drawing,
    Label,
    Line,
    Mark,
    Scale,
    clipped,
    short,
    ticks,
)
from eagle3_checks.report.html.figures import Estimate, Group

WIDTH = 400
LEFT, RIGHT, TOP, ROW = 126, 346, 30, 30
LONGEST = 17


def draw_groups(
    groups: Sequence[Group], by: str, *, floor: float | None, baseline: Estimate | None
) -> Drawing | None:
    """Draw a row a group, `by` names what they have in common; None without groups."""
    if not groups:
        return None
    values = [floor, baseline.value if baseline else None]
    for group in groups:
        values += [group.seen.value, group.seen.low, group.seen.high]
    known = [v for v in values if v is not None]
    low, high = min(known), max(known)
    room = (high - low) * 0.05 or 0.1
    scale = Scale(max(1.0, low - room), high + room, LEFT, RIGHT)
    legend = [("seen", "measured, with its interval")]
    if floor is not None:
        legend.append(("floor", f"floor {floor:.2f}"))
    if baseline:
        legend.append(("baseline-rule", f"baseline {baseline.value:.2f}"))
    return Drawing(
        name=f"by-{by.replace(' ', '-')}",
        title=f"Accept length by {by}",
        told=", ".join(f"{g.name}: {g.seen.value:.2f}" for g in groups),
        width=WIDTH,
        height=TOP + ROW * len(groups) + 42,
        marks=tuple(_marks(groups, scale, floor, baseline)),
        legend=tuple(legend),
    )


def _marks(
    groups: Sequence[Group], scale: Scale, floor: float | None, baseline: Estimate | None
) -> Iterator[Mark]:
    bottom = TOP + ROW * len(groups)
    for value in ticks(scale.low, scale.high, 4):
        x = scale(value)
        yield Line(x1=x, y1=TOP - 8, x2=x, y2=bottom, look="grid")
        yield Label(x=x, y=bottom + 18, text=short(value))
    yield Line(x1=LEFT, y1=bottom, x2=RIGHT, y2=bottom, look="axis")
    for look, wanted in (("floor", floor), ("baseline", baseline.value if baseline else None)):
        if wanted is not None:
            x = scale(wanted)
            yield Line(x1=x, y1=TOP - 12, x2=x, y2=bottom, look=look)
    for index, group in enumerate(groups):
        yield from _group(group, scale, TOP + ROW * (index + 0.5) - 2)
    yield Label(x=(LEFT + RIGHT) / 2, y=bottom + 36, text="tokens per verify step", look="name")
    yield Label(x=WIDTH - 2, y=TOP - 14, text="prompts", look="tick", anchor="end")


def _group(group: Group, scale: Scale, y: float) -> Iterator[Mark]:
    seen = group.seen
    look = "row-whole" if group.whole else "row"
    yield Label(
        x=LEFT - 10, y=y + 4, text=clipped(group.name, LONGEST), look=look, anchor="end",
        tip=group.name,
    )  # fmt: skip
    if seen.low is not None and seen.high is not None:
        yield Line(x1=scale(seen.low), y1=y, x2=scale(seen.high), y2=y, look="seen")
        for edge in (scale(seen.low), scale(seen.high)):
            yield Line(x1=edge, y1=y - 4, x2=edge, y2=y + 4, look="seen")
    yield Dot(
        x=scale(seen.value), y=y, look="seen-dot", size=6 if group.whole else 4,
        diamond=group.whole, tip=f"{group.name}: {seen.value:.2f}",
    )  # fmt: skip
    yield Label(x=scale(seen.value), y=y - 8, text=f"{seen.value:.2f}", look="value", halo=True)
    yield Label(x=WIDTH - 2, y=y + 4, text=str(group.prompts), anchor="end")
