"""Annotations for GitHub Actions: one workflow command a finding.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def workflow_commands(result: Mapping[str, Any], base: Path | None = None) -> Iterator[str]:
    """Yield a line for each finding that did not pass, errors first, and the verdict.

    Files are named relative to `base` (the working folder), where they lie below it.
    """
    lines = [_line(finding, result["subject"], base or Path.cwd()) for finding in _shown(result)]
    order = ("::error", "::warning", "::notice")
    yield from sorted(lines, key=lambda line: order.index(line.partition(" ")[0]))
    yield f"eagle3-checks: {result['verdict']} ({len(lines)} annotations)"


def _shown(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for finding in result["findings"]:
        if finding["status"] in ("fail", "inconclusive") or "ignored" in finding["evidence"]:
            yield finding


def _line(finding: Mapping[str, Any], subject: Mapping[str, Any], base: Path) -> str:
    command = _COMMANDS[finding["severity"]]
    if finding["status"] == "inconclusive":
        command = "warning"
    elif "ignored" in finding["evidence"]:
        command = "notice"
    text = finding["message"]
    if finding["fix"] and command != "notice":
        text += f"\nfix: {finding['fix']}"
    title = f"{finding['code']} {finding['title']}"
    properties = {"file": _file(finding, subject, base), "title": title}
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{command} {listed}::{_data(text)}"


def _file(finding: Mapping[str, Any], subject: Mapping[str, Any], base: Path) -> str:
    """Return the file to mark: the one the evidence names, else the config; none for a hub id."""
    folder = Path(subject["target" if finding["code"] == "SRC003" else "drafter"] or "")
    if not folder.is_dir():
        return ""
    named = folder / str(finding["evidence"].get("file", ""))
    file = (named if named.is_file() else folder / "config.json").absolute()
    return str(file.relative_to(base)) if file.is_relative_to(base) else str(file)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
