"""Each rule fires on its planted defects and stays silent on healthy facts and look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_checks.rules.registry import codes
from eagle3_checks.verdict import Severity, Status
from tests_cpu.rules.cases.case import Case
from tests_cpu.rules.cases.table import CASES

BY_LIFE = {"SRV003": "a server that does not start is a stage's failure, not a fact"}
"""Rules whose defect no fact can hold; the reason, and tests_cpu/plugin shows it."""

MEASURED = {"ACC005", "ACC006", "SPD003", "SPD004", "SPD005", "SPD006"}
"""Rules about measurements that test_measured_rules.py tests, each by itself."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case(request: pytest.FixtureRequest, case: Case) -> None:
    findings = request.getfixturevalue(case.judge)(case.code, **case.given)
    statuses = {f.status for f in findings}
    assert statuses == {case.status}, [f.message for f in findings]
    told = [f for f in findings if case.says in f.message]
    assert told, [f.message for f in findings]
    if case.severity:
        assert told[0].severity is case.severity
    if case.kind == "fires":
        assert all(f.fix for f in told)
    if case.severity in (Severity.WARNING, Severity.INFO):
        assert not any(f.is_error for f in findings)


@pytest.mark.parametrize("kind", ["fires", "healthy", "look-alike"])
def test_every_rule_has_a_case_of_each_kind(kind: str) -> None:
    have = {case.code for case in CASES if case.kind == kind}
    excused = set(BY_LIFE) if kind == "fires" else set()
    assert set(codes()) - have - excused - MEASURED == set()


def test_the_rules_about_measurements_are_tested_by_themselves() -> None:
    text = Path(__file__).with_name("test_measured_rules.py").read_text()
    assert {code for code in MEASURED if f'"{code}"' not in text} == set()


def test_every_case_is_one_of_a_rule() -> None:
    assert {case.code for case in CASES} <= set(codes())
    assert all(case.status is not Status.FAIL or case.severity for case in CASES)
