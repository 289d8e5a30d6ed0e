"""What a bisect found as plain data, and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3_checks.bisect.run import Measured, Outcome
from eagle3_checks.bisect.table import answer
from eagle3_checks.report.html.canvas import Scale, ticks
from eagle3_checks.report.result import plain, tool_version, write_text

SCHEMA_VERSION = 1
TEMPLATE = "page.html.j2"
LEFT, RIGHT, TOP, ROW = 150, 620, 30, 24


def document(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as plain JSON."""
    found = outcome.boundary
    names = [point.name for point in outcome.points]
    data: dict[str, Any] = plain(
        {
            "schema_version": SCHEMA_VERSION,
            "tool_version": tool_version(),
            "criterion": outcome.criterion.name,
            "threshold": outcome.threshold,
            "direction": "worse" if outcome.worse else "better",
            "before": names[found.before] if found else None,
            "after": names[found.after] if found else None,
            "exact": bool(found and found.exact),
            "skipped": [names[i] for i in found.skipped] if found else [],
            "contradicted": [names[i] for i in found.contradicted] if found else [],
            "trouble": outcome.trouble,
            "launches": outcome.launches,
            "kept": outcome.kept,
            "points": [
                {"name": name, "measured": [_entry(m) for m in outcome.measured.get(i, ())]}
                for i, name in enumerate(names)
            ],
        }
    )
    return data


def by_files(errors: Mapping[str, tuple[str, ...]], turn: tuple[str, str] | None) -> dict[str, Any]:
    """Return what the files alone say of every release, and where that changes, as plain JSON."""
    data: dict[str, Any] = plain(
        {
            "schema_version": SCHEMA_VERSION,
            "tool_version": tool_version(),
            "criterion": "errors of the files",
            "before": turn[0] if turn else None,
            "after": turn[1] if turn else None,
            "exact": turn is not None,
            "launches": 0,
            "points": [{"name": v, "errors": codes} for v, codes in errors.items()],
        }
    )
    return data


def _entry(entry: Measured) -> dict[str, Any]:
    return {
        "figure": entry.figure,
        "good": entry.good,
        "kept": entry.kept,
        "sglang": entry.reading.sglang,
        "prompts": len(entry.reading.counts),
        "errors": entry.reading.errors,
        "trouble": entry.reading.trouble,
    }


def write_page(outcome: Outcome, path: Path) -> None:
    """Write table and plot as one page that opens without a network. Raises OSError."""
    import jinja2  # noqa: PLC0415 - an optional extra

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # names come from folders
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    data = document(outcome)
    text = environment.get_template(TEMPLATE).render(
        data=data, answer=list(answer(outcome)), plot=_plot(data)
    )
    write_text(text, path)


def _plot(data: dict[str, Any]) -> dict[str, Any]:
    """Place every measurement: one row each, its interval from left to right."""
    rows = [(p["name"], m) for p in data["points"] for m in p["measured"]]
    seen = [m["figure"] for _, m in rows if m["figure"]]
    values = [v for f in seen for v in (f["low"], f["value"], f["high"]) if v is not None]
    values += [] if data["threshold"] is None else [data["threshold"]]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = max((high - low) * 0.05, 0.05)
    x = Scale(low - room, high + room, LEFT, RIGHT)
    bars = []
    for number, (name, entry) in enumerate(rows):
        value = entry["figure"]
        bars.append(
            {
                "name": name,
                "y": TOP + ROW * number + ROW / 2,
                "word": {True: "good", False: "bad", None: "open"}[entry["good"]],
                "low": x(value["low"] if value["low"] is not None else low) if value else None,
                "high": x(value["high"] if value["high"] is not None else high) if value else None,
                "at": x(value["value"]) if value else None,
            }
        )
    return {
        "bars": bars,
        "height": TOP + ROW * len(rows) + 24,
        "threshold": None if data["threshold"] is None else x(data["threshold"]),
        "ticks": [(x(t), f"{t:g}") for t in ticks(x.low, x.high)],
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
    }
