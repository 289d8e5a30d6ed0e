"""GitHub Actions: the step summary as Markdown, and annotations as workflow commands.

Texts come from checkpoints, logs and servers, so nothing in them may act as markup or as a command:
Markdown gets entities for whatever it could read as markup, commands get GitHub's own escapes.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import html
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eagle3_checks.report.floors import floor_of, floors_by_concurrency, origin
from eagle3_checks.report.result import harmless
from eagle3_checks.report.rows import grouped, interval, positions, rows
from eagle3_checks.report.text import counts, label_of, lead

MAX_ROWS = 50
MAX_TEXT = 1000
"""A summary may hold 1 MiB; a checkpoint may have thousands of odd names."""
_MARKUP = str.maketrans({c: f"&#{ord(c)};" for c in "\\`*_{}[]#|~@$!"})

Found = Mapping[str, Any]


def append_summary(result: Mapping[str, Any], path: Path) -> None:
    """Append the summary to the file that GITHUB_STEP_SUMMARY names. Raises OSError."""
    with path.open("a", encoding="utf-8") as out:
        out.write(step_summary(result))


def step_summary(result: Mapping[str, Any]) -> str:
    """Return verdict, figures and findings as Markdown."""
    code, text = lead(result)
    head = f"**{code}** " if code else ""
    parts = [f"## EAGLE-3 gate: {result['verdict']}", head + markdown(text)]
    subject = ((k, result["subject"].get(k)) for k in ("target", "drafter", "sglang"))
    parts.append("\n".join(f"- {name}: {markdown(str(v))}" for name, v in subject if v))
    figures = [tuple(map(markdown, row)) for row in _figures(result)]
    if figures:
        parts += ["### Figures", _table(("figure", "measured", "asked"), figures)]
    bad = sorted((f for f in result["findings"] if _level(f)), key=_rank)
    if bad:
        table = [
            (label_of(f), f["code"], markdown(f["message"]), markdown(f["fix"]))
            for f in bad[:MAX_ROWS]
        ]
        parts += ["### Findings", _table(("", "code", "finding", "fix"), table)]
    if len(bad) > MAX_ROWS:
        parts.append(f"and {len(bad) - MAX_ROWS} more")
    parts.append(counts(result["findings"]))
    if result["reproduce"]:
        command = html.escape(result["reproduce"]).replace("\n", "&#10;")
        parts.append(f"<pre><code>{command}</code></pre>")
    return "\n\n".join(part for part in parts if part) + "\n\n"


def annotate(result: Mapping[str, Any], workspace: str = "") -> Iterator[str]:
    """Yield a workflow command a finding that is no pass; one for the run where it has none.

    A floor's finding points at the floor's line, where the profile lies below `workspace`.
    """
    bad = sorted((f for f in result["findings"] if _level(f)), key=_rank)
    for finding in bad:
        text = "\n".join(
            f"{row.label}: {row.text}" if row.label else row.text for row in rows(finding, result)
        )
        title = f"{finding['code']} {finding['title']}"
        where = _where(finding, result, workspace)
        yield command(_level(finding), text, title=title, **where)
    if not bad:
        level = "notice" if result["verdict"] == "pass" else "error"
        yield command(level, lead(result).text, title=f"EAGLE-3 gate: {result['verdict']}")


def command(name: str, message: str, **properties: str) -> str:
    """Return a workflow command; message and properties are escaped as the runner reads them."""
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{name}{' ' if given else ''}{given}::{_data(message)}"


def paused() -> tuple[str, str]:
    """Return the commands between which the runner takes no line for a command.

    A line that a report wraps may begin anywhere in a text, also where that looks like a command.
    """
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"


def markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    cut = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    lines = html.escape(harmless(cut), quote=False).translate(_MARKUP).splitlines()
    return "<br>".join(lines).replace("://", ":&#47;/")


def _figures(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    measured = result["measurements"]
    acceptance = measured.get("acceptance") or {}
    for key, code in (("accept_length", "ACC001"), ("accept_rate", "ACC002")):
        if acceptance.get(key):
            asked = floor_of(result, code)
            floor = f"at least {asked:.2f}" if asked is not None else ""
            yield key.replace("_", " "), interval(acceptance[key]), floor
    if acceptance.get("per_position"):
        yield "correct by position", positions(acceptance["per_position"]), ""
    if acceptance:
        prompts = f"{grouped(acceptance['prompts'])} prompts"
        yield "verify steps", f"{grouped(acceptance['verify_steps'])} over {prompts}", ""
    throughput = measured.get("throughput") or {}
    floors = floors_by_concurrency(result, "SPD001")
    ups = {e["concurrency"]: e["ratio"] for e in throughput.get("speed_ups") or ()}
    for stream in throughput.get("streams") or ():
        concurrency = stream["concurrency"]
        up = ups.get(concurrency)
        gain = f", speed-up {up['value']:.2f}" if up else ""
        asked = floors.get(str(concurrency))
        floor = f"at least {asked:.1f}" if asked is not None else ""
        speed = f"{stream['tokens_per_second']:.1f} tok/s{gain}"
        yield f"speed at concurrency {concurrency}", speed, floor


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ("---",) * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body))


def _level(finding: Found) -> str:
    """Return the annotation's level, or nothing for a pass or a skip."""
    if finding["status"] not in ("fail", "inconclusive"):
        return ""
    return {"error": "error", "warning": "warning"}.get(finding["severity"], "notice")


def _rank(finding: Found) -> tuple[bool, bool]:
    return (_level(finding) != "error", finding["status"] != "fail")


def _where(finding: Found, result: Mapping[str, Any], workspace: str) -> dict[str, str]:
    name, _, line = origin(result, finding["code"]).rpartition(":")
    if not (workspace and name and line.isdigit()):
        return {}
    try:
        inside = Path(name).resolve().relative_to(Path(workspace).resolve())
    except ValueError:
        return {}
    return {"file": inside.as_posix(), "line": line}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
