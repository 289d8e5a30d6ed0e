"""How a rule is tested: what fires it, what does not, and what only looks as if it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from eagle3_checks.verdict import Severity, Status

Kind = Literal["fires", "healthy", "look-alike"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One judgement by one rule."""

    code: str
    kind: Kind
    given: Mapping[str, Any]
    """Arguments of the fixture that judges."""
    judge: str = "judge_files"
    says: str = ""
    severity: Severity | None = None
    status: Status = Status.PASS

    def __str__(self) -> str:
        return f"{self.code}-{self.kind}"


def fires(code: str, says: str, **given: Any) -> Case:
    """Return a planted defect: the rule fails, as an error, with this in its message."""
    return _planted(code, says, Severity.ERROR, given)


def warns(code: str, says: str, **given: Any) -> Case:
    """Return a planted defect that is a warning."""
    return _planted(code, says, Severity.WARNING, given)


def tells(code: str, says: str, **given: Any) -> Case:
    """Return a planted defect that is told for information."""
    return _planted(code, says, Severity.INFO, given)


def doubts(code: str, says: str, **given: Any) -> Case:
    """Return a planted defect that leaves the question open."""
    return _planted(code, says, None, given, Status.INCONCLUSIVE)


def healthy(code: str, says: str = "", **given: Any) -> Case:
    """Return a case that passes."""
    return Case(code=code, kind="healthy", says=says, given=given, judge=_judge(code, given))


def skips(code: str, says: str, **given: Any) -> Case:
    """Return a look-alike that the rule does not judge, with the reason."""
    return _look_alike(code, says, given, Status.SKIP)


def alike(code: str, says: str = "", **given: Any) -> Case:
    """Return a look-alike, which passes."""
    return _look_alike(code, says, given, Status.PASS)


def _planted(
    code: str,
    says: str,
    severity: Severity | None,
    given: dict[str, Any],
    status: Status = Status.FAIL,
) -> Case:
    return Case(
        code=code,
        kind="fires",
        says=says,
        severity=severity,
        status=status,
        given=given,
        judge=_judge(code, given),
    )


def _look_alike(code: str, says: str, given: dict[str, Any], status: Status) -> Case:
    return Case(
        code=code,
        kind="look-alike",
        says=says,
        status=status,
        given=given,
        judge=_judge(code, given),
    )


_JUDGES = {
    "WIR": "judge_wiring",
    "ACC": "judge_acceptance",
    "LOS": "judge_parity",
    "SPD": "judge_speed",
    "SRV": "judge_server",
}


def _judge(code: str, given: dict[str, Any]) -> str:
    """Return the fixture that judges a family; `judge` in the arguments names another."""
    return str(given.pop("judge", _JUDGES.get(code[:3], "judge_files")))
