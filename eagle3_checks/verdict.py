"""What it means: severities, findings, verdicts and exit codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from eagle3_checks.facts import Interval


class Severity(StrEnum):
    """How bad a problem is: an error makes the served drafter misbehave, a warning may."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Status(StrEnum):
    """How one rule ended."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    INCONCLUSIVE = "inconclusive"


class Verdict(StrEnum):
    """How a whole run ended. Only PASS is green."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not-run"


class ExitCode(IntEnum):
    """Process exit codes; 2 to 5 are pytest's own."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 7
    NOT_RUN = 8
    BISECT_SKIP = 125


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The outcome of one rule, or one of several problems that it found."""

    code: str
    family: str
    severity: Severity
    status: Status
    title: str
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""
    docs: str = ""

    @property
    def is_error(self) -> bool:
        """Whether this finding alone makes the verdict FAIL."""
        return self.status is Status.FAIL and self.severity is Severity.ERROR


def judge(findings: Iterable[Finding], *, measured: bool) -> Verdict:
    """Sum findings up; `measured` says whether the drafter was served and its acceptance counted.

    An error decides; otherwise doubt does; without a measurement nothing passes.
    """
    seen = tuple(findings)
    if any(f.is_error for f in seen):
        return Verdict.FAIL
    if any(f.status is Status.INCONCLUSIVE for f in seen):
        return Verdict.INCONCLUSIVE
    return Verdict.PASS if measured else Verdict.NOT_RUN


def exit_code(verdict: Verdict, *, bisect: bool = False) -> ExitCode:
    """Exit code of a verdict; in bisect mode all but PASS and FAIL is 125 (cannot be judged)."""
    codes = {
        Verdict.PASS: ExitCode.PASS,
        Verdict.FAIL: ExitCode.FAIL,
        Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
        Verdict.NOT_RUN: ExitCode.NOT_RUN,
    }
    code = codes[verdict]
    if bisect and code not in (ExitCode.PASS, ExitCode.FAIL):
        return ExitCode.BISECT_SKIP
    return code


class Confidence(StrEnum):
    """How sure a cause is. The rules for it are in docs/diagnosis.md; it is no probability."""

    PROVEN = "proven"
    """A rule found an error on which the drafter misbehaves, or one change alone mends it."""
    LIKELY = "likely"
    """The evidence tells it from the other causes, without proof."""
    SUSPECTED = "suspected"
    """It would explain what is seen, and so would others."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to try next."""

    what: str
    command: str = ""
    """The command that does it, where there is one."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What may explain a failure, with the evidence for and against it."""

    name: str
    """One of the names in docs/diagnosis.md, as in ``rope``."""
    code: str
    """The finding it rests on: its own, or that of the symptom it would explain."""
    message: str
    fix: str
    confidence: Confidence
    evidence_for: tuple[str, ...] = ()
    evidence_against: tuple[str, ...] = ()
    next_steps: tuple[Step, ...] = ()


class Outcome(StrEnum):
    """What is known of a figure against what it is held against."""

    REACHED = "reached"
    MISSED = "missed"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A figure held against a bound, at a stated error over all looks of the run."""

    outcome: Outcome
    value: float
    bound: float
    interval: Interval
    """Repeated interval: it holds the truth at every look of the run at once at its level."""
    prompts: int
    """Prompts seen when it was decided, or at the end."""
    planned: int
    looks: int
    verify_steps: int
    detectable: float
    """Smallest distance from the bound that all planned prompts would show in 4 runs of 5."""


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """What a run could say of each figure; None where nothing was asked or nothing was seen."""

    error: float
    accept_length: Judgement | None = None
    accept_rate: Judgement | None = None
    baseline: Judgement | None = None
