"""The results of a sweep in one table, and the best setting at each concurrency."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3_checks.report.result import harmless
from eagle3_checks.sweep.grid import Trial

MEASURED = ("ACC", "SPD")
"""Families whose floors say nothing about which setting is the fastest."""
NAME, SPEC, RELEASE, VERDICT, FIGURE = 20, 8, 10, 9, 8
LABEL = 11


@dataclass(frozen=True, kw_only=True)
class Row:
    """One trial and its result, or why it has none."""

    trial: Trial
    result: Mapping[str, Any] | None
    problem: str = ""

    @property
    def speeds(self) -> dict[int, Mapping[str, Any]]:
        """Tokens per second by concurrency, with its interval."""
        measured = self.result["measurements"].get("throughput") if self.result else None
        return {
            s["concurrency"]: s["interval"]
            for s in (measured or {}).get("streams", ())
            if s["interval"]
        }

    @property
    def sound(self) -> bool:
        """Whether nothing but a floor of acceptance or speed is missed."""
        found = self.result["findings"] if self.result else ()
        return not any(
            f["status"] == "fail" and f["severity"] == "error" and f["family"] not in MEASURED
            for f in found
        )


@dataclass(frozen=True, kw_only=True)
class Best:
    """The fastest setting at one concurrency, and those that cannot be told from it."""

    concurrency: int
    row: Row
    speed: Mapping[str, Any]
    alike: tuple[Row, ...]


def best(rows: Sequence[Row]) -> tuple[Best, ...]:
    """Return the fastest sound trial at each concurrency."""
    found = []
    for concurrency in sorted({c for row in rows for c in row.speeds}):
        able = [row for row in rows if row.sound and concurrency in row.speeds]
        able.sort(key=lambda row: -row.speeds[concurrency]["value"])
        if not able:
            continue
        speed = able[0].speeds[concurrency]
        alike = [r for r in able[1:] if _overlap(r.speeds[concurrency], speed)]
        found.append(Best(concurrency=concurrency, row=able[0], speed=speed, alike=tuple(alike)))
    return tuple(found)


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two intervals overlap; one without an end overlaps everything on that side."""
    ends = one["high"], other["low"], other["high"], one["low"]
    if None in ends:
        return True
    return bool(one["high"] >= other["low"] and other["high"] >= one["low"])


def lines(rows: Sequence[Row], *, width: int = 79) -> Iterator[str]:
    """Yield the table, what has no result, and the best settings."""
    streams = sorted({c for row in rows for c in row.speeds})
    head = f"{'drafter':{NAME}} {'s-k-d':{SPEC}}{'sglang':{RELEASE}}{'verdict':{VERDICT}}"
    speeds = "".join(f"{f'tok/s@{c}':>{FIGURE + 1}}" for c in streams)
    yield f"{head}{'length':>{FIGURE}}{speeds}"
    for row in rows:
        yield _row(row, streams)
    yield ""
    for label, text in _below(rows):
        wrapped = textwrap.wrap(harmless(text), width - LABEL, break_on_hyphens=False)
        yield label.ljust(LABEL) + wrapped[0]
        yield from (" " * LABEL + line for line in wrapped[1:])


def _row(row: Row, streams: Sequence[int]) -> str:
    measured = (row.result or {}).get("measurements") or {}
    length = ((measured.get("acceptance") or {}).get("accept_length") or {}).get("value")
    release = ((row.result or {}).get("subject") or {}).get("sglang") or row.trial.sglang
    verdict = (row.result or {}).get("verdict", "none")
    name = harmless(_short(row.trial.drafter))
    cells = [
        f"{row.speeds[c]['value']:>{FIGURE + 1}.1f}" if c in row.speeds else f"{'-':>{FIGURE + 1}}"
        for c in streams
    ]
    shown = "-" if length is None else f"{length:.2f}"
    head = f"{name:{NAME}} {row.trial.speculation:{SPEC}}{harmless(str(release)):{RELEASE}}"
    return f"{head}{_WORDS.get(verdict, verdict):{VERDICT}}{shown:>{FIGURE}}{''.join(cells)}"


_WORDS = {"inconclusive": "open"}


def _below(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row.problem:
            yield "no result", f"{_called(row)}: {row.problem}"
        blocked = ((row.result or {}).get("measurements") or {}).get("blocked")
        if blocked:
            yield "unmeasured", f"{_called(row)}: {blocked}"
    for found in best(rows):
        streams = "1 stream" if found.concurrency == 1 else f"{found.concurrency} streams"
        low, high = found.speed["low"], found.speed["high"]
        ends = "" if low is None or high is None else f" [{low:.1f}, {high:.1f}]"
        text = f"{streams}: {_called(found.row)}, {found.speed['value']:.1f}{ends} tok/s"
        if found.alike:
            text += "; not to be told from it: " + ", ".join(_called(r) for r in found.alike)
        yield "best at", text


def _called(row: Row) -> str:
    parts = (Path(row.trial.drafter).name, row.trial.speculation, row.trial.sglang)
    return " ".join(part for part in parts if part)


def _short(drafter: str) -> str:
    name = Path(drafter).name
    return name if len(name) <= NAME else "…" + name[1 - NAME :]
