from __future__ import annotations

from typing import Any

import pytest

from eagle3_checks.report.rows import because, reproduce, rows, shape
from eagle3_checks.report.text import lead
from eagle3_checks.verdict import Status, Verdict
from tests_cpu.report import samples


def of(code: str, result: dict[str, Any]) -> dict[str, str]:
    finding = next(f for f in result["findings"] if f["code"] == code)
    return dict(rows(finding, result))


def test_a_failure_reads_from_the_figure_to_the_command() -> None:
    told = of("ACC001", samples.dead())
    assert list(told) == ["measured", "floor", "position", "because", "reproduce"]
    assert told["measured"].startswith("1.03  [1.01, 1.05] 95 %   80 prompts, 19 876 verify steps")
    assert told["floor"] == "2.25  profiles/kimi-k2.5.toml:52"
    assert told["because"].startswith("WIR003 fc never ran in prefill and draft-extend")
    assert told["reproduce"] == "pytest -m gpu -k ACC001 --eagle3-profile kimi-k2.5"


def test_a_symptom_without_a_cause_keeps_its_fix() -> None:
    result = samples.a_result((samples.DEAD,), Verdict.FAIL, {})
    assert list(of("ACC001", result)) == ["measured", "floor", "position", "fix", "reproduce"]


def test_a_floor_inside_the_interval_says_so() -> None:
    evidence = {**samples.DEAD.evidence, "value": 2.2, "low": 2.1, "high": 2.3}
    doubt = samples.finding("ACC001", Status.INCONCLUSIVE, evidence=evidence)
    result = samples.a_result((doubt,), Verdict.INCONCLUSIVE, {})
    assert of("ACC001", result)["floor"].endswith("inside the interval")


def test_a_warning_is_no_cause_and_needs_no_command() -> None:
    result = samples.a_result((samples.WARNED, samples.DEAD), Verdict.FAIL, {})
    assert "because" not in of("ACC001", result)
    assert list(of("CFG009", result)) == ["", "fix"]


def test_the_root_has_no_cause() -> None:
    result = samples.dead()
    finding = next(f for f in result["findings"] if f["code"] == "WIR003")
    assert because(finding, result) is None


def test_a_pass_has_no_consequences() -> None:
    assert of("KEY001", samples.dead()) == {"": "15 tensors"}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.02, 0.01, 0.0), "flat from the first position on"),
        ((0.7, 0.1, 0.05), "breaks at position 2"),
        ((0.7, 0.5, 0.1), "breaks at position 3"),
        ((0.7, 0.5, 0.35), ""),
        ((0.7,), ""),
    ],
)
def test_the_shape_of_a_chain(shares: tuple[float, ...], expected: str) -> None:
    assert shape(shares) == expected


def test_commands_are_narrowed_to_a_rule() -> None:
    assert reproduce("pytest -m gpu --eagle3-profile p", "KEY001") == (
        "pytest -m gpu -k KEY001 --eagle3-profile p"
    )
    assert reproduce("eagle3-checks gate --profile p", "KEY001") == (
        "eagle3-checks gate --profile p -- -k KEY001"
    )
    assert reproduce("", "KEY001") == ""


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.INCONCLUSIVE, ("SPD002", "2 of 16 requests failed at concurrency 8")),
        (Verdict.NOT_RUN, ("", "Nothing was measured.")),
    ],
)
def test_a_verdict_in_one_sentence(verdict: Verdict, expected: tuple[str, str]) -> None:
    findings = (samples.NOISY,) if verdict is Verdict.INCONCLUSIVE else ()
    assert lead(samples.a_result(findings, verdict, {})) == expected
