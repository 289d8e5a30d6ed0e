from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_checks.verdict import Finding, Severity, Status, Verdict, exit_code, judge


def finding(status: Status, severity: Severity = Severity.ERROR, code: str = "KEY001") -> Finding:
    return Finding(
        code=code,
        family=code[:3],
        severity=severity,
        status=status,
        title="title",
        message=f"{code} message",
    )


FINDINGS = st.lists(st.builds(finding, st.sampled_from(Status), st.sampled_from(Severity)))


@given(FINDINGS, st.booleans())
def test_only_a_measured_run_without_error_or_doubt_passes(
    findings: list[Finding],
    measured: bool,  # noqa: FBT001 - hypothesis draws it
) -> None:
    verdict = judge(findings, measured=measured)
    doubt = any(f.status is Status.INCONCLUSIVE for f in findings)
    error = any(f.is_error for f in findings)
    assert (verdict is Verdict.PASS) == (measured and not doubt and not error)
    assert (verdict is Verdict.FAIL) == error


@pytest.mark.parametrize(
    ("verdict", "code", "in_bisect"),
    [
        (Verdict.PASS, 0, 0),
        (Verdict.FAIL, 1, 1),
        (Verdict.INCONCLUSIVE, 7, 125),
        (Verdict.NOT_RUN, 8, 125),
    ],
)
def test_exit_codes(verdict: Verdict, code: int, in_bisect: int) -> None:
    assert exit_code(verdict) == code
    assert exit_code(verdict, bisect=True) == in_bisect
