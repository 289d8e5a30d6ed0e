"""Evidence as runs give it, from a few figures."""

from __future__ import annotations

from eagle3_checks.diagnosis import Evidence
from eagle3_checks.facts import Acceptance, Group, Interval, Trial, Trials
from eagle3_checks.verdict import Finding, Severity, Status

Shares = tuple[float, ...]
HEALTHY: Shares = (0.64, 0.43, 0.28)
DEAD: Shares = (0.04, 0.0, 0.0)
FLOOR = 2.0


def finding(
    code: str, severity: Severity = Severity.ERROR, status: Status = Status.FAIL
) -> Finding:
    return Finding(
        code=code,
        family=code[:3],
        severity=severity,
        status=status,
        title=f"{code} title",
        message=f"{code} message",
        fix=f"{code} fix",
    )


LOW = finding("ACC001")


def interval(value: float, margin: float = 0.1) -> Interval:
    return Interval(value=value, low=value - margin, high=value + margin, level=0.95, n=24)


def group(name: str, length: float) -> Group:
    return Group(name=name, prompts=8, verify_steps=400, accept_length=interval(length))


def acceptance(
    shares: Shares, by_set: tuple[Group, ...] = (), by_prompt_tokens: tuple[Group, ...] = ()
) -> Acceptance:
    return Acceptance(
        prompts=24,
        verify_steps=1000,
        correct_drafts=int(1000 * sum(shares)),
        proposed_drafts=1000 * len(shares),
        accept_length=interval(1 + sum(shares)),
        accept_rate=interval(sum(shares) / len(shares)),
        per_position=shares,
        failed_requests=0,
        by_set=by_set,
        by_prompt_tokens=by_prompt_tokens,
    )


def trial(cause: str, shares: Shares, change: str = "a change") -> Trial:
    return Trial(
        name=cause,
        cause=cause,
        change=change,
        accept_length=1 + sum(shares),
        per_position=shares,
    )


def trials(
    unchanged: Shares,
    *,
    repairs: tuple[Trial, ...] = (),
    faults: tuple[Trial, ...] = (),
    ablations: tuple[Trial, ...] = (),
    coverage: float = 1.0,
) -> Trials:
    return Trials(
        prompts=24,
        verify_steps=1000,
        unchanged=trial("", unchanged),
        repairs=repairs,
        faults=faults,
        ablations=ablations,
        coverage=coverage,
    )


def run(
    *findings: Finding,
    served: Shares = DEAD,
    tried: Trials | None = None,
    measured: Acceptance | None = None,
) -> Evidence:
    return Evidence(
        findings=(LOW, *findings),
        acceptance=measured or acceptance(served),
        trials=tried,
        floor=FLOOR,
    )
