"""Causes that a rule has found: each failed finding that is no mere symptom."""

from __future__ import annotations

from eagle3_checks.diagnosis.catalogue import CAUSES, name_of
from eagle3_checks.diagnosis.evidence import LOW, Evidence
from eagle3_checks.verdict import Cause, Confidence, Finding, Severity, Step

SYMPTOMS = (*LOW, "SPD001", "SPD004")
"""What is to be explained, and explains nothing."""
ORDER = ("SRC", "SRV", "CFG", "VOC", "FUS", "KEY", "VAL", "WIR", "LOS", "ACC", "SPD")
"""Nearest to the root first: files and flags, what a loader makes of them, what is seen in the
server, what is measured."""
BEARING = frozenset(
    {"CFG008", "CFG011", "CFG016", "CFG017", "CFG019", "CFG020", "FUS009", "FUS010", "FUS011"}
    | {"KEY002", "VOC003", "VOC006", "VAL001", "VAL002", "VAL003", "VAL004", "VAL005"}
)
"""Warnings that can cost acceptance; others, as of what SGLang discards anyway, cannot."""
SEEN_INSIDE = {
    "KEY001": "WIR001",
    "KEY002": "WIR002",
    "KEY003": "WIR001",
    "CFG004": "WIR003",
    "FUS003": "WIR003",
    "FUS005": "WIR003",
}
"""Rules about files, and those that would see the same inside the server."""


def found(evidence: Evidence) -> list[Cause]:
    """Return the causes that rules have found, in the order of the way from files to figures."""
    failed = [f for f in evidence.failed() if f.code not in SYMPTOMS]
    return [_cause(finding, evidence) for finding in sorted(failed, key=_place)]


def bears(cause: Cause) -> bool:
    """Whether what was found can cost acceptance."""
    return cause.confidence is not Confidence.SUSPECTED or cause.code in BEARING


def steps(name: str, evidence: Evidence) -> tuple[Step, ...]:
    """Return what to try next, with the checkpoints in its commands."""
    return tuple(
        Step(what=step.what, command=evidence.subject.command(step.command))
        for step in CAUSES[name].steps
    )


def _cause(finding: Finding, evidence: Evidence) -> Cause:
    name = name_of(finding.code, finding.evidence)
    seen = SEEN_INSIDE.get(finding.code, "")
    against = (f"{seen} passed: it was not so inside the server",) if evidence.passed(seen) else ()
    error = finding.severity is Severity.ERROR
    proven = Confidence.LIKELY if against else Confidence.PROVEN
    return Cause(
        name=name,
        code=finding.code,
        message=finding.message,
        fix=finding.fix,
        confidence=proven if error else Confidence.SUSPECTED,
        evidence_for=_consequences(finding, evidence),
        evidence_against=against,
        next_steps=steps(name, evidence),
    )


def _consequences(finding: Finding, evidence: Evidence) -> tuple[str, ...]:
    """Name what would follow, and was seen."""
    seen = SEEN_INSIDE.get(finding.code, "")
    follows = [f for f in evidence.failed() if f.code == seen]
    if finding.code in BEARING or finding.severity is Severity.ERROR:
        follows += evidence.low
    return tuple(f"{f.code} {_clause(f.message)}" for f in follows if f.code != finding.code)


def _clause(message: str) -> str:
    return message.partition("\n")[0].partition("; ")[0]


def _place(finding: Finding) -> tuple[bool, int]:
    known = finding.family in ORDER
    place = ORDER.index(finding.family) if known else len(ORDER)
    return (finding.severity is not Severity.ERROR, place)
