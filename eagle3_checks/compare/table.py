"""Two results side by side, in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eagle3_checks.compare.changes import Change
from eagle3_checks.compare.explaining import Comparison, new_errors
from eagle3_checks.report.result import harmless
from eagle3_checks.report.rows import clause

LABEL, FIGURE = 15, 21
HUNDRED = 100


def lines(comparison: Comparison, *, width: int = 79) -> Iterator[str]:
    """Yield figures, differences and explanations."""
    yield f"{'':{LABEL}}{'first':{FIGURE}}{'second':{FIGURE}}".rstrip()
    verdicts = [str(r["verdict"]).upper() for r in (comparison.first, comparison.second)]
    yield f"{'verdict':{LABEL}}{verdicts[0]:{FIGURE}}{verdicts[1]:{FIGURE}}".rstrip()
    for change in comparison.changes:
        yield _figure(change)
    if not comparison.changes:
        yield "no figure is in both results"
    yield ""
    for label, text in _below(comparison):
        wrapped = textwrap.wrap(harmless(text), width - LABEL, break_on_hyphens=False) or [""]
        yield label.ljust(LABEL) + wrapped[0]
        yield from (" " * LABEL + line for line in wrapped[1:])


def _figure(change: Change) -> str:
    state: str = change.state
    if change.changed and change.share is not None:
        state += f" {change.share:+.0%}".replace("%", " %")
    return f"{change.name:{LABEL}}{_interval(change.first)}{_interval(change.second)}{state}"


def _interval(value: Mapping[str, Any]) -> str:
    digits = 2 if abs(value["value"]) < HUNDRED else 0
    low, high = ("?" if value[k] is None else f"{value[k]:.{digits}f}" for k in ("low", "high"))
    return f"{value['value']:.{digits}f} [{low}, {high}]".ljust(FIGURE)


def _below(comparison: Comparison) -> Iterator[tuple[str, str]]:
    first, second = comparison.first, comparison.second
    yield from _labelled(
        "differs", (f"{d.name}: {d.first}, then {d.second}" for d in comparison.differences)
    )
    if not comparison.differences:
        yield "differs", "nothing that the results hold"
    failing, mended = new_errors(first, second), new_errors(second, first)
    yield from _labelled("fails now", (f"{f['code']} {clause(f['message'])}" for f in failing))
    yield from _labelled("holds again", (f"{f['code']} {f['title']}" for f in mended))
    yield from _labelled("explains", (f"{e.kind}: {e.text}" for e in comparison.explanations))
    if comparison.changes and not comparison.explanations:
        yield "no change", "the intervals of every figure overlap"


def _labelled(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        yield label, text
        label = ""
