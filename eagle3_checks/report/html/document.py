"""The page: everything a result holds, in one file that opens without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eagle3_checks.report.html import figures
from eagle3_checks.report.html.canvas import Drawing
from eagle3_checks.report.html.groups import draw_groups
from eagle3_checks.report.html.length import draw_length
from eagle3_checks.report.html.positions import draw_positions
from eagle3_checks.report.html.speed import draw_speed, draw_speedup
from eagle3_checks.report.html.trend import draw_trend, draw_trend_by_position
from eagle3_checks.report.result import write_text
from eagle3_checks.report.rows import Row, command, grouped, rows, seen
from eagle3_checks.report.text import counts, label_of, lead
from eagle3_checks.rules.registry import by_code

TEMPLATE = "document.html.j2"
HOW_TO_INSTALL = "HTML reports need jinja2: pip install 'eagle3-checks[report]'"
LONGEST_EVIDENCE = 6000


class MissingExtraError(RuntimeError):
    """What HTML reports need is not installed; the message says how to install it."""


def require_jinja() -> None:
    """Raise MissingExtraError where a page could not be made."""
    try:
        import jinja2  # noqa: F401, PLC0415 - an optional extra
    except ImportError as error:
        raise MissingExtraError(HOW_TO_INSTALL) from error


def write_html(result: Mapping[str, Any], path: Path) -> None:
    """Write the page of a result. Raises MissingExtraError or OSError."""
    write_text(page(result), path)


def page(result: Mapping[str, Any]) -> str:
    """Return the page of a result. Raises MissingExtraError."""
    require_jinja()
    import jinja2  # noqa: PLC0415 - an optional extra

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # names come from checkpoints
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ms"] = _milliseconds
    environment.filters["n"] = lambda value: f"{value:.1f}".removesuffix(".0")
    text: str = environment.get_template(TEMPLATE).render(_context(result))
    return text


def _context(result: Mapping[str, Any]) -> dict[str, Any]:
    found = [_finding(f, result) for f in result["findings"]]
    return {
        "result": result,
        "lead": lead(result),
        "counts": counts(result["findings"]),
        "created": result.get("created", "").replace("T", " ").replace("+00:00", " UTC"),
        "length": _length(result),
        "facts": tuple(_facts(result)),
        "drawings": tuple(filter(None, _drawings(result))),
        "speeds": figures.speeds(result),
        "bad": sorted((f for f in found if f["rank"] < _PASSED), key=lambda f: f["rank"]),
        "passed": [f for f in found if f["rank"] == _PASSED],
        "skipped": [f for f in found if f["rank"] > _PASSED],
        "settings": [(k, _shown(v["value"]), v["origin"]) for k, v in result["profile"].items()],
        "surroundings": tuple(_surroundings(result)),
    }


def _milliseconds(quantiles: Mapping[str, float] | None) -> str:
    """Write median and 99th percentile, as in ``41 / 96``."""
    if not quantiles:
        return "not measured"
    each = (1000 * quantiles[key] for key in ("p50", "p99"))
    return " / ".join(f"{value:.{0 if value >= _WHOLE else 1}f}" for value in each)


_WHOLE = 100
"""Milliseconds from which on tenths say nothing."""


_PASSED = 3


def _rank(finding: Mapping[str, Any]) -> int:
    """Order findings as they are read: errors, doubt, warnings, passes, skips."""
    ranks = {"fail": 0, "inconclusive": 1, "pass": _PASSED, "skip": _PASSED + 1}
    rank = ranks[finding["status"]]
    return 2 if rank == 0 and finding["severity"] != "error" else rank


def _finding(finding: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    told = tuple(_rows(finding, result))
    evidence = json.dumps(finding["evidence"], indent=2, ensure_ascii=False)
    if len(evidence) > LONGEST_EVIDENCE:
        evidence = evidence[:LONGEST_EVIDENCE] + "\n… the whole is in the JSON result"
    return {
        **finding,
        "rank": _rank(finding),
        "label": label_of(finding),
        "rows": told,
        "evidence": evidence if finding["evidence"] else "",
        **_declaration(finding["code"]),
    }


def _rows(finding: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a finding; a page has room for a symptom's own fix too."""
    if _rank(finding) >= _PASSED:
        yield from seen(finding, result)
        return
    told = rows(finding, result)
    last = [row for row in told if row.label == "reproduce"]
    yield from (row for row in told if row.label != "reproduce")
    if finding["fix"] and not any(row.label == "fix" for row in told):
        yield Row("fix", finding["fix"])
    yield from last


def _declaration(code: str) -> dict[str, Any]:
    try:
        rule = by_code(code)
    except KeyError:
        return {"why": "", "references": ()}
    return {
        "why": rule.why,
        "references": tuple(r for r in rule.references if r.startswith("https://")),
    }


def _length(result: Mapping[str, Any]) -> Drawing | None:
    measured = figures.accept_length(result)
    if measured is None:
        return None
    return draw_length(
        measured,
        floor=figures.floor(result),
        baseline=figures.baseline(result),
        ceiling=figures.ceiling(result),
    )


def _facts(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and remark of the figures at the top."""
    measured = figures.acceptance(result)
    length = figures.accept_length(result)
    if length:
        yield "accept length", f"{length.value:.2f}", _interval(length)
    rate = figures.estimate(measured.get("accept_rate"))
    if rate:
        yield "accept rate", f"{rate.value:.2f}", _interval(rate)
    if measured:
        remark = f"{grouped(measured['prompts'])} prompts"
        if measured.get("stopped"):
            remark += f" of {grouped(measured['planned'])}: {measured['stopped']}"
        yield "verify steps", grouped(measured["verify_steps"]), remark
    speeds = figures.speeds(result)
    if speeds:
        first = speeds[0]
        remark = "1 stream" if first.concurrency == 1 else f"{first.concurrency} streams"
        if first.speedup:
            remark += f", x {first.speedup.value:.2f} of no speculation"
        yield "tok/s", f"{first.seen.value:.1f}", remark


def _interval(value: figures.Estimate) -> str:
    if value.low is None or value.high is None or value.level is None:
        return "no interval"
    return f"{value.low:.2f} to {value.high:.2f} at {value.level:.0%}".replace("%", " %")


def _drawings(result: Mapping[str, Any]) -> Iterator[Drawing | None]:
    floor, baseline = figures.floor(result), figures.baseline(result)
    yield draw_positions(figures.positions(result), chain=figures.is_chain(result))
    speeds = figures.speeds(result)
    yield draw_speed(speeds)
    for key, by in (("by_set", "prompt set"), ("by_prompt_tokens", "prompt length")):
        yield draw_groups(figures.groups(result, key), by, floor=floor, baseline=baseline)
    yield draw_speedup(speeds, figures.break_even(result), figures.drift(result))
    past = figures.history(result)
    yield draw_trend(past, floor=floor)
    yield draw_trend_by_position(past)


def _surroundings(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the run took place in, by name."""
    measured, hashes = result["measurements"], result["subject"].get("hashes") or {}
    yield from ((f"hash of the {name}", value) for name, value in hashes.items() if value)
    if measured.get("prompts_sha256"):
        yield "hash of the prompts", measured["prompts_sha256"]
    took: Mapping[str, float] = measured.get("stage_seconds") or {}
    if took:
        yield "took", ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in took.items())
    for key, value in result["environment"].items():
        if value:
            words = key == "server_command" and isinstance(value, Sequence)
            yield key.replace("_", " "), command(value) if words else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{key} = {_shown(entry)}" for key, entry in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value)) or "none"
    if value is None or value == "":
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
