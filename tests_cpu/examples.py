"""A pytest plugin that adds missing examples to the rules' pages.

    python -m pytest -q -p tests_cpu.examples tests_cpu/rules

For each rule that has no example yet, the first message with which it failed in a test (or ended
in doubt, where it never fails) is put into eagle3_checks/report/examples.json. Read the diff; then
``python -m eagle3_checks.report.rule_docs``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle3_checks.report import explain
from eagle3_checks.rules import base
from eagle3_checks.verdict import Severity, Status

FILE = Path(explain.__file__).with_name("examples.json")
_seen: dict[str, str] = {}
_doubts: dict[str, str] = {}
_original = base._finding


def _recording(rule: Any, status: Status, message: str, *more: Any, **named: Any) -> Any:
    finding = _original(rule, status, message, *more, **named)
    usual = finding.severity in (rule.severity, Severity.ERROR)
    if "pytest-" in finding.message or not usual:
        return finding
    if status is Status.FAIL:
        _seen.setdefault(finding.code, finding.message)
    elif status is Status.INCONCLUSIVE:
        _doubts.setdefault(finding.code, finding.message)
    return finding


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that make up their inputs."""
    items[:] = [item for item in items if "hostile" not in item.path.name]
    base._finding = _recording


def pytest_sessionfinish() -> None:
    """Write what was missing."""
    known: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}
    merged = {**_doubts, **_seen, **known}
    FILE.write_text(json.dumps(merged, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
