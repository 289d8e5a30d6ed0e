"""The detection matrix as text, and what it sums up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from eagle3_checks.selftest.row import Row

ENOUGH = 0.9
"""Share of the served defects whose cause must stand first."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a matrix comes to."""

    rows: int
    bad: tuple[Row, ...]
    """Rows with a miss or a false alarm."""
    served: int
    right: int
    """Served defects whose cause stands first."""

    @property
    def good(self) -> bool:
        """Whether everything was caught, nothing falsely, and the causes are right enough."""
        return not self.bad and (not self.served or self.right >= ENOUGH * self.served)


def summarise(rows: Iterable[Row], defects: Iterable[str]) -> Summary:
    """Sum rows up; `defects` are the names of those that are no healthy variants."""
    seen, known = tuple(rows), frozenset(defects)
    served = [row for row in seen if row.served and row.name in known]
    return Summary(
        rows=len(seen),
        bad=tuple(row for row in seen if row.problems),
        served=len(served),
        right=sum(not row.wrong_cause for row in served),
    )


def line(row: Row) -> str:
    """Write one row for a terminal."""
    mark = "MISS" if row.problems else "ok"
    warned = f"({' '.join(row.warnings)})" if row.warnings else ""
    codes = " ".join(filter(None, (*row.errors, warned)))
    named = f"{row.cause} {row.confidence}" if row.cause else "nothing to see"
    parts = [f"{mark:<5}{row.name:<26}"]
    if row.served:
        parts.append(f"{_length(row.accept_length)} {_length(row.replayed)}  ")
    parts.append(f"{named:<25} {codes}")
    return "".join(parts).rstrip()


def notes(row: Row) -> Iterator[str]:
    """Yield what is wrong with a row."""
    yield from (f"     {problem}" for problem in row.problems)
    if row.served and row.wrong_cause:
        yield "     another cause than the planted one stands first"


def ending(summary: Summary) -> Iterator[str]:
    """Yield the last lines."""
    count = "1 row" if summary.rows == 1 else f"{summary.rows} rows"
    yield f"{count}, {len(summary.bad)} with a miss or a false alarm"
    if summary.served:
        share = summary.right / summary.served
        yield f"cause first in {summary.right} of {summary.served} served defects ({share:.0%})"


def table(rows: Sequence[Row], titles: dict[str, str], *, served: bool) -> str:
    """Write rows as a Markdown table."""
    head = ["defect", "what is planted", "errors", "warnings", "cause"]
    if served:
        head += ["accept length", "replayed"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [
            f"`{row.name}`",
            titles[row.name],
            " ".join(row.errors),
            " ".join(row.warnings),
            f"{row.cause} ({row.confidence})" if row.cause else "",
        ]
        if served:
            cells += [_length(row.accept_length), _length(row.replayed)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _length(value: float | None) -> str:
    return "  - " if value is None else f"{value:.2f}"
