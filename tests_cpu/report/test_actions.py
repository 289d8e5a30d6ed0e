from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from eagle3_checks.report.actions import (
    annotate,
    append_summary,
    command,
    markdown,
    paused,
    step_summary,
)
from eagle3_checks.verdict import Status, Verdict
from tests_cpu.report import samples


@pytest.mark.parametrize("name", ["dead", "healthy", "not_run"])
def test_the_summary(snapshot: SnapshotAssertion, name: str) -> None:
    assert step_summary(getattr(samples, name)()) == snapshot


@pytest.mark.parametrize("name", ["dead", "healthy", "not_run"])
def test_annotations(snapshot: SnapshotAssertion, name: str) -> None:
    lines = list(annotate(getattr(samples, name)()))
    assert all("\n" not in line for line in lines)
    assert lines == snapshot


def test_hostile_names_form_no_markup_and_no_command() -> None:
    result = samples.hostile()
    text = step_summary(result)
    for forbidden in ("<script", "<img", "</style", "**b**", "[c](d)", "`a`", "\x1b", "<b>"):
        assert forbidden not in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in table} == {5}
    (line,) = annotate(result)
    assert line.startswith("::error title=KEY001 ")
    assert "%0A::error::forged 100%25, at: \\x1b[31mred" in line


def test_a_command_escapes_what_the_runner_reads() -> None:
    assert command("error", "a%b\r\nc: d, e", title="x: y, 5%", file="") == (
        "::error title=x%3A y%2C 5%25::a%25b%0D%0Ac: d, e"
    )
    assert command("notice", "") == "::notice::"


def test_a_pause_ends_by_a_token_that_nobody_knows() -> None:
    (stop, go_on), (other, _) = paused(), paused()
    assert stop == f"::stop-commands::{go_on.strip(':')}"
    assert stop != other


def test_a_floor_is_annotated_at_its_line(tmp_path: Path) -> None:
    result = samples.dead()
    origin = f"{tmp_path}/profiles/my, own.toml:52"
    result["profile"]["floors.accept_length"] = {"value": 2.25, "origin": origin}
    lines = list(annotate(result, str(tmp_path)))
    assert "file=profiles/my%2C own.toml,line=52" in lines[1]
    assert not any("file=" in line for line in annotate(result, str(tmp_path / "elsewhere")))
    assert not any("file=" in line for line in annotate(result))


def test_doubt_is_an_error_and_a_warning_a_warning() -> None:
    levels = [line.partition(" ")[0] for line in annotate(samples.dead())]
    assert levels == ["::error"] * 4 + ["::warning"]


def test_a_summary_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    append_summary(samples.not_run(), path)
    assert path.read_text("utf-8").startswith("before\n## EAGLE-3 gate: not-run")


def test_a_summary_stays_within_its_limit() -> None:
    many = tuple(
        samples.finding("KEY001", Status.FAIL, message="|" * 9000, fix="&" * 9000)
        for _ in range(300)
    )
    text = step_summary(samples.a_result(many, Verdict.FAIL, {}))
    assert "and " in text
    assert len(text.encode()) < 1 << 20


def test_long_lines_and_breaks() -> None:
    assert markdown("a\nb") == "a<br>b"
    assert markdown("x" * 5000).endswith("…")
