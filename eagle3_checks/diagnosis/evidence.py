"""What a diagnosis rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

from eagle3_checks.facts import Acceptance, Replayed, Trials, Wiring
from eagle3_checks.verdict import Finding, Severity, Status

LOW = ("ACC001", "ACC002", "ACC005")
"""The rules that say that too few drafts are accepted."""
SYMPTOMS = ("ACC", "SPD", "LOS")
"""Families that measure what causes lead to."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is diagnosed, as it stands in commands."""

    drafter: str = "DRAFTER"
    target: str = "TARGET"
    gate: str = "eagle3-checks gate --profile PROFILE"

    def command(self, template: str) -> str:
        """Fill the checkpoints and the gate's command in."""
        option = "--eagle3-replay" if self.gate.startswith("pytest") else "--replay"
        return template.format(
            drafter=self.drafter,
            target=self.target,
            gate=self.gate,
            replay=f"{self.gate} {option}",
        )


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that is known of one run; None where a stage did not run."""

    findings: tuple[Finding, ...] = ()
    acceptance: Acceptance | None = None
    replayed: Replayed | None = None
    trials: Trials | None = None
    wiring: Wiring | None = None
    floor: float | None = None
    """Accept length that was asked for, and not reached."""
    subject: Subject = field(default_factory=Subject)

    def failed(self, *families: str) -> tuple[Finding, ...]:
        """Return the failed findings of some families that matter, of all where none is named."""
        return tuple(
            f
            for f in self.findings
            if f.status is Status.FAIL
            and f.severity is not Severity.INFO
            and (not families or f.family in families)
        )

    @property
    def low(self) -> tuple[Finding, ...]:
        """The findings that say that too few drafts are accepted."""
        return tuple(f for f in self.failed("ACC") if f.code in LOW)

    def passed(self, code: str) -> bool:
        """Whether a rule ran and found nothing."""
        return any(f.code == code and f.status is Status.PASS for f in self.findings)
