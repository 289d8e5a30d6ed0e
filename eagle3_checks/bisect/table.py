"""What a bisect found, in a terminal: one table that is a plot too, and the answer below it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator

from eagle3_checks.bisect.run import Measured, Outcome
from eagle3_checks.facts import Interval
from eagle3_checks.report.result import harmless

NAME, FIGURE, WORD = 18, 19, 4
NARROWEST = 10
LABEL = 11
HUNDRED = 100


def lines(outcome: Outcome, *, width: int = 79) -> Iterator[str]:
    """Yield the table, then what it says."""
    yield from _table(outcome, width)
    yield ""
    yield from labelled(answer(outcome), width)


def labelled(rows: Iterable[tuple[str, str]], width: int = 79) -> Iterator[str]:
    """Yield texts behind their labels, wrapped; a label that was just given is not repeated."""
    before = ""
    for label, text in rows:
        wrapped = textwrap.wrap(text, width - LABEL, break_on_hyphens=False) or [""]
        yield ("" if label == before else label).ljust(LABEL) + wrapped[0]
        yield from (" " * LABEL + line for line in wrapped[1:])
        before = label


def answer(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the answer as labelled sentences."""
    if outcome.threshold is not None:
        where = "" if outcome.given else ", halfway between the ends"
        how = "; told prompt by prompt against both" if outcome.paired else ""
        yield "threshold", f"{_number(outcome.threshold)}{where}{how}"
    yield from _boundary(outcome)
    launches = f"{outcome.launches} of this run"
    kept = f", {outcome.kept} measurements kept from earlier ones" if outcome.kept else ""
    yield "launches", launches + kept


def _boundary(outcome: Outcome) -> Iterator[tuple[str, str]]:
    found = outcome.boundary
    if found is None:
        yield "no answer", harmless(outcome.trouble)
        return
    names = [harmless(point.name) for point in outcome.points]
    word = "bad" if outcome.worse else "good"
    before, after = names[found.before], names[found.after]
    if found.exact:
        last = "good" if outcome.worse else "bad"
        how = "by its files" if outcome.criterion.static else "confirmed by a second measurement"
        text = f"{after}, {how}; {before} is the last {last} one"
        yield f"first {word}", text
    elif not found.confirmed:
        yield (
            "no answer",
            (
                f"{after} was {word} at first, and not so when it was measured again; nothing is "
                "blamed on one measurement"
            ),
        )
    else:
        left = ", ".join(names[i] for i in found.skipped)
        yield (
            f"first {word}",
            f"one of {names[found.before + 1]} to {after}: {left} could not be told",
        )
    for index in found.contradicted:
        if index != found.after:
            yield "", f"{names[index]}: two measurements of it disagree"
    for index in found.skipped:
        seen = outcome.measured[index][-1]
        if seen.reading.trouble:
            yield "", f"{names[index]}: {harmless(seen.reading.trouble)}"
    yield from _files(outcome, found.before, found.after)


def _files(outcome: Outcome, before: int, after: int) -> Iterator[tuple[str, str]]:
    """Yield the errors that the files of the first one show, and those of the one before do not."""
    was = set(outcome.measured[before][-1].reading.errors)
    new = [code for code in outcome.measured[after][-1].reading.errors if code not in was]
    gone = sorted(was - set(outcome.measured[after][-1].reading.errors))
    if new:
        yield (
            "files",
            f"{outcome.points[after].name} has errors that show in its files: " + ", ".join(new),
        )
    if gone:
        yield "files", f"gone with {outcome.points[after].name}: " + ", ".join(gone)


def _table(outcome: Outcome, width: int) -> Iterator[str]:
    figures = [m.figure for e in outcome.measured.values() for m in e if m.figure]
    plotted = max(width - NAME - FIGURE - WORD - 6, NARROWEST)
    low, high = _range(figures, outcome.threshold)
    ends = _number(low), _number(high)
    axis = ends[0] + ends[1].rjust(plotted - len(ends[0])) if figures else ""
    yield f"{'':{NAME}}  {outcome.criterion.heading:<{FIGURE}}  {'':{WORD}}  {axis}".rstrip()
    unmeasured = 0
    for index, point in enumerate(outcome.points):
        entries = outcome.measured.get(index, ())
        if not entries:
            unmeasured += 1
            continue
        if unmeasured:
            yield f"  … {unmeasured} not measured"
            unmeasured = 0
        for number, entry in enumerate(entries):
            name = "  again" if number else _clipped(harmless(point.name))
            plot = _plot(entry.figure, outcome.threshold, low, high, plotted)
            word = "open" if entry.good is None else "good" if entry.good else "bad"
            row = f"{name:{NAME}}  {_figure(entry):<{FIGURE}}  {word:{WORD}}  {plot}"
            yield row.rstrip()


def _figure(entry: Measured) -> str:
    value = entry.figure
    if value is None:
        return next(iter(entry.reading.statuses.values()), "no figure")
    return f"{_number(value.value)} [{_number(value.low)}, {_number(value.high)}]"


def _number(value: float) -> str:
    """Write a figure; hundreds of tok/s need no decimals."""
    return f"{value:.2f}" if abs(value) < HUNDRED else f"{value:.0f}"


def _range(figures: list[Interval], threshold: float | None) -> tuple[float, float]:
    values = [v for f in figures for v in (f.low, f.value, f.high) if math.isfinite(v)]
    values += [] if threshold is None else [threshold]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _plot(
    value: Interval | None, threshold: float | None, low: float, high: float, width: int
) -> str:
    """Draw an interval on a line of characters, the threshold as a bar."""
    line = [" "] * width

    def place(number: float) -> int:
        share = (min(max(number, low), high) - low) / (high - low)
        return round(share * (width - 1))

    if value is not None:
        for i in range(place(value.low), place(value.high) + 1):
            line[i] = "─"
    if threshold is not None:
        line[place(threshold)] = "│"
    if value is not None:
        line[place(value.value)] = "●"
    return "".join(line)


def _clipped(name: str) -> str:
    return name if len(name) <= NAME else "…" + name[1 - NAME :]
