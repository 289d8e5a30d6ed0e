"""What a repackaging did, as lines that fit 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from eagle3_checks.repackage.run import Outcome
from eagle3_checks.report.result import harmless
from eagle3_checks.verdict import Finding, Severity, Status

WIDTH = 79
LABEL = 11


def lines(outcome: Outcome, source: str, out: str) -> Iterator[str]:
    """Yield the report: what was changed or refused, the findings before and after, the place."""
    yield from _row("drafter", source)
    yield from _row("sglang", outcome.sglang)
    for number, change in enumerate(outcome.changes):
        label = "" if number else ("changed" if outcome.written else "would be")
        yield from _row(label, change.what)
        yield from _row("", f"{change.old} -> {change.new}", indent=2)
        yield from _row("", f"({change.why})", indent=2)
    for number, refusal in enumerate(outcome.refusals):
        yield from _row("" if number else "refused", refusal.what)
        yield from _row("", refusal.why, indent=2)
        yield from _row("", f"instead: {refusal.instead}", indent=2)
    for number, left in enumerate(outcome.left_out):
        yield from _row("" if number else "left out", f"{left.name} ({left.why})")
    yield from _row("before", _summary(outcome.before))
    if outcome.written:
        yield from _row("after", _summary(outcome.after))
    yield from _remaining(outcome.after if outcome.written else outcome.before)
    yield from _row("wrote", _ending(outcome, out))


def _remaining(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield what `inspect` still says, errors first."""
    failed = [f for f in findings if f.status is Status.FAIL]
    for finding in sorted(failed, key=lambda f: not f.is_error):
        label = "error" if finding.is_error else finding.severity.value
        yield from _row(label, f"{finding.code} {finding.message}")


def _ending(outcome: Outcome, out: str) -> str:
    if outcome.written:
        return out if outcome.changes else f"{out} (a copy: there was nothing to fix)"
    if outcome.refusals:
        return "nothing: a fix would be a guess"
    return "nothing: no fix is known for the errors"


def _summary(findings: Sequence[Finding]) -> str:
    parts = []
    for severity in (Severity.ERROR, Severity.WARNING):
        failed = [f for f in findings if f.status is Status.FAIL and f.severity is severity]
        codes = ", ".join(dict.fromkeys(f.code for f in failed))
        plural = "" if len(failed) == 1 else "s"
        parts.append(f"{len(failed)} {severity.value}{plural}" + (f" ({codes})" if codes else ""))
    return ", ".join(parts)


def _row(label: str, text: str, indent: int = 0) -> Iterator[str]:
    margin = " " * (LABEL + indent)
    wrapped = textwrap.wrap(
        harmless(text),
        WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    yield label.ljust(LABEL) + wrapped[0][LABEL:]
    yield from wrapped[1:]
