"""A result in words: the lead sentence, the counts, the label of a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eagle3_checks.report.rows import clause, grouped


def is_ignored(finding: Mapping[str, Any]) -> bool:
    """Whether a finding was ignored on purpose (``--ignore CODE=reason``)."""
    return "ignored" in finding["evidence"]


def label_of(finding: Mapping[str, Any]) -> str:
    """Return the status of a finding, or its severity where it failed without being an error."""
    if is_ignored(finding):
        return "ignored"
    failed = finding["status"] == "fail"
    label = finding["severity"] if failed and finding["severity"] != "error" else finding["status"]
    return str(label)


def counts(findings: Sequence[Mapping[str, Any]]) -> str:
    """Count findings by how they ended, as in ``12 passed, 1 failed, 2 skipped``."""
    labels = [label_of(finding) for finding in findings]
    names = (
        ("pass", "passed"),
        ("fail", "failed"),
        ("warning", "warning"),
        ("info", "note"),
        ("inconclusive", "inconclusive"),
        ("skip", "skipped"),
        ("ignored", "ignored"),
    )
    parts = []
    for label, word in names:
        if count := labels.count(label):
            plural = "s" if word in ("warning", "note") and count > 1 else ""
            parts.append(f"{count} {word}{plural}")
    return ", ".join(parts)


class Lead(NamedTuple):
    """The sentence of a verdict, and the code of the finding it is about, if any."""

    code: str
    text: str


def _cause(cause: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]) -> Lead:
    """Name the first cause, and how sure it is where a rule has not found it."""
    told = clause(cause["message"])
    if any(clause(f["message"]) == told for f in findings if f["code"] == cause["code"]):
        return Lead(cause["code"], told)
    return Lead(cause["code"], f"{cause['confidence']}: {told}")


def lead(result: Mapping[str, Any]) -> Lead:
    """Say in one sentence why the verdict is what it is."""
    verdict, causes = result["verdict"], result["causes"]
    if verdict == "fail" and causes:
        return _cause(causes[0], result["findings"])
    doubts = [f for f in result["findings"] if f["status"] == "inconclusive"]
    if verdict == "inconclusive" and doubts:
        return Lead(doubts[0]["code"], clause(doubts[0]["message"]))
    measured = result["measurements"].get("acceptance")
    if verdict == "pass" and measured:
        steps = grouped(measured["verify_steps"])
        return Lead("", f"Every rule held, over {steps} verify steps.")
    if verdict == "pass":
        return Lead("", "Every rule held. The files alone were judged.")
    blocked = result["measurements"].get("blocked")
    return Lead("", f"Nothing was measured: {blocked}" if blocked else "Nothing was measured.")
