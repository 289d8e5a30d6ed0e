"""Findings as the outcome of a pytest test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eagle3_checks.report.result import harmless
from eagle3_checks.verdict import Finding, Severity, Status


def assert_rule(findings: Sequence[Finding]) -> None:
    """Return when the rule passed; fail on an error or on doubt, skip where it was skipped.

    A warning does not fail the test; the report shows it. Doubt fails the test so that nothing that
    reads test outcomes alone takes it for a pass.
    """
    bad = [
        f
        for f in findings
        if f.is_error or (f.status is Status.INCONCLUSIVE and f.severity is Severity.ERROR)
    ]
    if bad:
        pytest.fail(harmless("\n".join(_text(f) for f in bad)), pytrace=False)
    if findings and all(f.status is Status.SKIP for f in findings):
        pytest.skip(findings[0].message)


def _text(finding: Finding) -> str:
    status = "" if finding.status is Status.FAIL else f" ({finding.status.value})"
    fix = f"\n  fix: {finding.fix}" if finding.fix else ""
    return f"{finding.code} {finding.title}{status}\n  {finding.message}{fix}"
