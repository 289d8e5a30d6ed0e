"""A finding as labelled rows: measured, floor, position, because, fix, reproduce.

One reading of a finding's evidence for all renderers; text alone, no layout.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from eagle3_checks.report.floors import origin

SYMPTOMS = ("ACC", "LOS", "SPD")
"""Families that measure what the others explain."""
FLAT = 0.1
"""Share of correct first drafts below which nothing that the drafter proposes fits."""
FALLS = 0.25
"""Share of a position that the next one keeps, below which the chain breaks there."""
PYTEST = "pytest -m gpu"


class Row(NamedTuple):
    """A label and its text."""

    label: str
    text: str


def rows(finding: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return everything there is to say of a finding below its title."""
    return (*seen(finding, result), *consequences(finding, result))


def seen(finding: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Row]:
    """Yield what was measured and what was asked; a row without label is the message."""
    evidence = finding["evidence"]
    if not _told(evidence) and finding["message"] != finding["title"]:
        yield Row("", finding["message"])
    elif "ignored" in evidence:
        yield Row("ignored", evidence["ignored"])
    yield from _figures(finding, result)
    shares = evidence.get("per_position")
    if shares:
        yield Row("position", "   ".join(filter(None, (positions(shares), shape(shares)))))
    if isinstance(evidence.get("width"), int):
        yield Row("measured", f"width {evidence['width']}")
    elif isinstance(evidence.get("fc_in"), int) and "wanted" in evidence:
        yield Row("measured", f"width {evidence['fc_in']}")
    if isinstance(evidence.get("wanted"), int):
        yield Row("wanted", f"width {evidence['wanted']}")


def consequences(finding: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the cause, the fix and the command; the fix of a symptom is that of its cause."""
    if finding["status"] not in ("fail", "inconclusive"):
        return
    cause = because(finding, result)
    if cause:
        yield Row("because", f"{cause['code']} {clause(cause['message'])}")
    if finding["fix"] and not (cause and finding["family"] in SYMPTOMS):
        yield Row("fix", finding["fix"])
    command = reproduce(result.get("reproduce", ""), finding["code"])
    if command and finding["severity"] == "error":
        yield Row("reproduce", command)


def because(finding: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the ranked cause that stands nearest to the root before a finding, if any."""
    if finding["family"] not in (*SYMPTOMS, "WIR") or finding["status"] != "fail":
        return None
    if finding["family"] == "SPD":
        low = (f for f in result["findings"] if f["family"] == "ACC" and is_error(f))
        slow_for: Mapping[str, Any] | None = next(low, None)
        if slow_for and not any(c["confidence"] == "proven" for c in result["causes"]):
            return slow_for
    errors = {f["code"] for f in result["findings"] if f["severity"] == "error"}
    for cause in result["causes"]:  # ranked, and the errors first
        if cause["code"] == finding["code"]:
            return None
        sure = cause["confidence"] != "suspected" and cause["code"] in errors
        if sure and cause["code"][:3] != finding["family"]:
            known: Mapping[str, Any] = cause
            return known
    return None


def is_error(finding: Mapping[str, Any]) -> bool:
    """Whether a finding alone makes the verdict fail."""
    return bool(finding["status"] == "fail" and finding["severity"] == "error")


def reproduce(command: str, code: str) -> str:
    """Return the command of a whole gate narrowed to one rule."""
    if command.startswith(PYTEST):
        return f"{PYTEST} -k {code}{command.removeprefix(PYTEST)}"
    return f"{command} -- -k {code}" if command else ""


def clause(message: str) -> str:
    """Return the first clause of a message; the whole stands with its own finding."""
    return message.partition("\n")[0].partition("; ")[0]


def interval(value: Mapping[str, Any], digits: int = 2) -> str:
    """Write an interval, as in ``2.23  [2.15, 2.31] 95 %``."""
    low = "-inf" if value["low"] is None else f"{value['low']:.{digits}f}"
    high = "inf" if value["high"] is None else f"{value['high']:.{digits}f}"
    level = f"{value['level']:.0%}".replace("%", " %")
    return f"{value['value']:.{digits}f}  [{low}, {high}] {level}"


def positions(shares: Sequence[float]) -> str:
    """Write the share of correct drafts by position, as in ``1: 0.62   2: 0.35``."""
    return "   ".join(f"{i}: {share:.2f}" for i, share in enumerate(shares, start=1))


def shape(shares: Sequence[float]) -> str:
    """Say in words how acceptance breaks along a chain, or nothing."""
    if shares[0] < FLAT:
        return "flat from the first position on"
    for number, (before, after) in enumerate(pairwise(shares), start=2):
        if after < FALLS * before:
            return f"breaks at position {number}"
    return ""


def grouped(number: int) -> str:
    """Write a whole number with thin groups, as in ``19 876``."""
    return f"{number:,}".replace(",", " ")


def command(words: Sequence[str]) -> str:
    """Write a command as one line for a shell."""
    return shlex.join(words)


def _told(evidence: Mapping[str, Any]) -> bool:
    """Whether the evidence holds all that the message says: a figure, its interval, its floor."""
    return {"value", "low", "high", "level", "floor"} <= set(evidence)


def _figures(finding: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Row]:
    evidence, where = finding["evidence"], origin(result, finding["code"])
    if _told(evidence):
        counts = _counts(evidence)
        yield Row("measured", "   ".join(filter(None, (interval(evidence), counts))))
    floor = evidence.get("floor")
    if isinstance(floor, int | float):
        parts = (f"{floor:.2f}", where, _inside(evidence))
        yield Row("floor", "  ".join(filter(None, parts)))
        return
    streams = [
        f"{concurrency}: {entry['tokens_per_second']:.1f} of {entry['floor']:.1f}"
        for concurrency, entry in evidence.items()
        if isinstance(entry, Mapping) and entry.get("floor") is not None
    ]
    if streams:
        yield Row("streams", "   ".join(filter(None, (*streams, "tok/s of floor", where))))


def _inside(evidence: Mapping[str, Any]) -> str:
    if not _told(evidence) or not evidence["low"] < evidence["floor"] <= evidence["high"]:
        return ""
    detectable = evidence.get("detectable")
    if not isinstance(detectable, int | float):
        return "inside the interval"
    return f"inside the interval; this run could tell {detectable:.2f} from it"


def _counts(evidence: Mapping[str, Any]) -> str:
    parts = []
    if isinstance(evidence.get("prompts"), int):
        prompts, planned = evidence["prompts"], evidence.get("planned") or evidence["prompts"]
        some = f"{grouped(prompts)} of " if prompts < planned else ""
        parts.append(f"{some}{grouped(planned)} prompts")
    if isinstance(evidence.get("verify_steps"), int):
        parts.append(f"{grouped(evidence['verify_steps'])} verify steps")
    return ", ".join((*parts, "clustered by prompt")) if parts else ""
