"""A finding as labelled rows: measured, floor, position, because, fix, reproduce.

One reading of a finding's evidence for all renderers; text alone, no layout.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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
    figures = tuple(_figures(finding, result))
    told = any(row.label == "measured" for row in figures) and "floor" in evidence
    if not told and finding["message"] != finding["title"]:
        yield Row("", finding["message"])
    yield from figures
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
    errors = {f["code"] for f in result["findings"] if f["severity"] == "error"}
    for cause in result["causes"]:  # ranked, and the errors first
        if cause["code"] == finding["code"]:
            return None
        if cause["code"] in errors and cause["code"][:3] != finding["family"]:
            known: Mapping[str, Any] = cause
            return known
    return None


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


def origin(result: Mapping[str, Any], key: str) -> str:
    """Say where a setting of the profile came from, or nothing."""
    return str(result["profile"].get(key, {}).get("origin", ""))


def setting_of(code: str) -> str:
    """Return the setting that holds the floor of a rule, or nothing."""
    named = {"ACC001": "floors.accept_length", "ACC002": "floors.accept_rate"}
    return named.get(code, "floors.tokens_per_second" if code.startswith("SPD") else "")


def command(words: Sequence[str]) -> str:
    """Write a command as one line for a shell."""
    return shlex.join(words)


def _figures(finding: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Row]:
    evidence = finding["evidence"]
    unit = " tok/s" if finding["family"] == "SPD" else ""
    value = evidence.get("value")
    if isinstance(value, int | float):
        yield Row("measured", "   ".join(filter(None, (_value(evidence, unit), _counts(evidence)))))
        for name in ("floor", "baseline"):
            wanted = evidence.get(name)
            if isinstance(wanted, Mapping):
                wanted = wanted.get("value")
            if isinstance(wanted, int | float):
                where = origin(result, setting_of(finding["code"])) if name == "floor" else ""
                digits = 1 if unit else 2
                inside = _inside(evidence, wanted)
                text = f"{wanted:.{digits}f}{unit}"
                yield Row(name, "  ".join(filter(None, (text, where, inside))))
    elif finding["family"] == "SPD" and evidence:
        streams = [
            f"{concurrency}: {entry['tokens_per_second']:.1f} of {entry['floor']:.1f}"
            for concurrency, entry in evidence.items()
            if isinstance(entry, Mapping) and entry.get("floor") is not None
        ]
        if streams:
            where = origin(result, "floors.tokens_per_second")
            yield Row("streams", "   ".join(filter(None, (*streams, "tok/s of floor", where))))


def _value(evidence: Mapping[str, Any], unit: str) -> str:
    digits = 1 if unit else 2
    if {"low", "high", "level"} <= set(evidence):
        text, _, level = interval(evidence, digits).partition("]")
        return f"{text}]{unit}{level}"
    return f"{evidence['value']:.{digits}f}{unit}"


def _inside(evidence: Mapping[str, Any], wanted: float) -> str:
    low, high = evidence.get("low"), evidence.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return ""
    return "inside the interval" if low < wanted <= high else ""


def _counts(evidence: Mapping[str, Any]) -> str:
    parts = [
        f"{grouped(evidence[key])} {noun}"
        for key, noun in (("prompts", "prompts"), ("verify_steps", "verify steps"))
        if isinstance(evidence.get(key), int)
    ]
    if "prompts" in evidence and "low" in evidence:
        parts.append("clustered by prompt")
    return ", ".join(parts)
