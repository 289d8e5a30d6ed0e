from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.report.terminal import render, terminal_width
from eagle3_checks.verdict import Status, Verdict
from tests_cpu.report import samples


def rendered(result: dict[str, Any], width: int, *, verbose: bool = False) -> str:
    out = io.StringIO()
    render(result, Console(file=out, width=width), verbose=verbose)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_failed_gate(snapshot: SnapshotAssertion, width: int) -> None:
    text = rendered(samples.dead(), width)
    wide = [line for line in text.splitlines() if len(line) > width]
    assert [line for line in wide if not line.strip().startswith("reproduce")] == []
    assert text == snapshot


def test_verbose_lists_passes_and_skips(snapshot: SnapshotAssertion) -> None:
    assert rendered(samples.dead(), 80, verbose=True) == snapshot


@pytest.mark.parametrize("name", ["healthy", "not_run"])
def test_without_failures_it_is_short(snapshot: SnapshotAssertion, name: str) -> None:
    assert rendered(getattr(samples, name)(), 80) == snapshot


def test_numbers_are_not_broken() -> None:
    for width in range(40, 100):
        text = rendered(samples.dead(), width)
        assert "19 876" in text
        assert "95 %" in text


def test_markup_in_names_is_shown_as_it_is() -> None:
    bad = samples.finding("KEY001", Status.FAIL, message="[bold]a[/bold] [/] \x1b[31mred")
    text = rendered(samples.a_result((bad,), Verdict.FAIL, {}), 80)
    assert "[bold]a[/bold] [/]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("columns", "expected"), [("20", 40), ("72", 72), ("400", 100)])
def test_width_follows_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str, expected: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == expected


def test_why_there_is_no_replay_is_told() -> None:
    result = samples.healthy()
    result["measurements"]["not_replayed"] = "RoPE of type 'longrope' is not computed"
    assert "replay     RoPE of type 'longrope' is not computed\n" in rendered(result, 80)
