from __future__ import annotations

from typing import Any

from eagle3_checks.report.junit import add_suite_properties, properties, suite_properties
from eagle3_checks.verdict import Severity, Status
from tests_cpu.report import samples


def test_a_failure_carries_figure_and_floor() -> None:
    assert dict(properties((samples.DEAD,))) == {
        "eagle3.code": "ACC001",
        "eagle3.status": "fail",
        "eagle3.severity": "error",
        "eagle3.message": samples.DEAD.message,
        "eagle3.measured": "1.03",
        "eagle3.floor": "2.25",
    }


def test_speeds_are_named_by_concurrency() -> None:
    found = dict(properties((samples.SLOW,)))
    assert found["eagle3.measured"] == "1: 24.8, 8: 161.5"
    assert found["eagle3.floor"] == "1: 50"


def test_the_worst_finding_gives_the_status() -> None:
    mild = samples.finding("KEY001", Status.FAIL, severity=Severity.WARNING, message="mild")
    bad = samples.finding("KEY001", Status.FAIL, message="bad\x1b[0m")
    found = dict(properties((mild, samples.PASSED[0], bad)))
    assert (found["eagle3.status"], found["eagle3.severity"]) == ("fail", "error")
    assert found["eagle3.message"] == "mild\nbad\\x1b[0m"


def test_no_findings_no_properties() -> None:
    assert properties(()) == []


def test_the_suite_carries_the_verdict() -> None:
    found = dict(suite_properties(samples.dead()))
    assert found["eagle3.verdict"] == "fail"
    assert found["eagle3.causes"] == "WIR003 CFG009"
    assert found["eagle3.accept_length"] == "1.03"
    assert found["eagle3.accept_length_low"] == "1.01"
    assert found["eagle3.verify_steps"] == "19876"
    assert dict(suite_properties(samples.not_run()))["eagle3.verdict"] == "not-run"


def test_only_the_junit_plugin_is_told() -> None:
    class Writer:
        def __init__(self) -> None:
            self.given: list[tuple[str, Any]] = []

        def add_global_property(self, name: str, value: object) -> None:
            self.given.append((name, value))

    writer = Writer()
    add_suite_properties((object(), writer), samples.dead())
    assert ("eagle3.verdict", "fail") in writer.given
