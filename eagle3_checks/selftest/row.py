"""One row of the detection matrix: what was planted, what was seen, what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eagle3_checks.reference.defects import Defect, Planted
from eagle3_checks.verdict import Cause, Confidence, Finding, Severity, Status, Verdict


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the gate made of one planting."""

    name: str
    served: bool
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    verdict: str = ""
    cause: str = ""
    confidence: str = ""
    accept_length: float | None = None
    replayed: float | None = None
    problems: tuple[str, ...] = ()
    """Misses and false alarms."""
    wrong_cause: bool = False
    """Whether another cause than the planted one stands first."""


def static_row(planted: Planted, findings: Iterable[Finding], causes: tuple[Cause, ...]) -> Row:
    """Judge what the files and flags alone showed."""
    seen = tuple(findings)
    errors, warnings = _codes(seen, Severity.ERROR), _codes(seen, Severity.WARNING)
    problems: list[str] = []
    wrong = False
    if isinstance(planted, Defect):
        problems += _missed("error", planted.codes, errors)
        problems += _missed("warning", planted.warns, warnings)
        problems += _alarms("error", planted.codes, errors)
        wrong = bool(causes) and causes[0].name != planted.cause
    else:
        problems += _alarms("error", (), errors)
        problems += _alarms("warning", planted.warns, warnings)
    return Row(
        name=planted.name,
        served=False,
        errors=errors,
        warnings=warnings,
        cause=causes[0].name if causes else "",
        confidence=causes[0].confidence.value if causes else "",
        problems=tuple(problems),
        wrong_cause=wrong,
    )


def served_row(
    planted: Planted,
    findings: Iterable[Finding],
    causes: tuple[Cause, ...],
    verdict: Verdict,
    *,
    lengths: tuple[float | None, float | None],
) -> Row:
    """Judge what the server showed; `lengths` are the accept lengths served and replayed."""
    seen = tuple(findings)
    errors, warnings = _codes(seen, Severity.ERROR), _codes(seen, Severity.WARNING)
    problems: list[str] = []
    wrong = False
    if isinstance(planted, Defect):
        problems += _missed("error", planted.served_codes, errors)
        if verdict is not Verdict.FAIL:
            problems.append(f"the verdict is {verdict}")
        wrong = not causes or causes[0].name != planted.cause
        if wrong and causes and causes[0].confidence is Confidence.PROVEN:
            problems.append(f"{causes[0].name} is named as proven")
    else:
        problems += _alarms("error", (), errors)
        if verdict is not Verdict.PASS:
            problems.append(f"the verdict is {verdict}")
    return Row(
        name=planted.name,
        served=True,
        errors=errors,
        warnings=warnings,
        verdict=verdict.value,
        cause=causes[0].name if causes else "",
        confidence=causes[0].confidence.value if causes else "",
        accept_length=lengths[0],
        replayed=lengths[1],
        problems=tuple(problems),
        wrong_cause=wrong,
    )


def _codes(findings: tuple[Finding, ...], severity: Severity) -> tuple[str, ...]:
    """Return the codes that failed with this severity; a warning beside an error is none."""
    failed = [f for f in findings if f.status is Status.FAIL]
    worse = {f.code for f in failed if f.is_error} if severity is not Severity.ERROR else set()
    codes = {f.code for f in failed if f.severity is severity}
    return tuple(sorted(codes - worse))


def _missed(what: str, wanted: Iterable[str], seen: Iterable[str]) -> Iterator[str]:
    yield from (f"no {what} {code}" for code in sorted(set(wanted) - set(seen)))


def _alarms(what: str, wanted: Iterable[str], seen: Iterable[str]) -> Iterator[str]:
    yield from (f"false {what} {code}" for code in sorted(set(seen) - set(wanted)))
