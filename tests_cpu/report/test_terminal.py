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


@pytest.mark.parametrize("width", [80, 40])
def test_causes_without_proof_come_with_their_evidence(
    snapshot: SnapshotAssertion, width: int
) -> None:
    text = rendered(samples.unexplained(), width)
    assert text[text.index("verdict ") :] == snapshot


def test_answers_in_short() -> None:
    alike = {"prompts": 4, "tokens": 128, "divergences": [], "missing": ""}
    nothing = {"prompts": 0, "tokens": 0, "divergences": [], "missing": "no cache"}
    seen = {"scored": {**alike, "divergences": [{}, {}]}, "again": alike, "together": alike}
    result = samples.a_result((), Verdict.PASS, {"parity": {**seen, "cached": nothing}})
    assert (
        "answers    126 of 128 tokens are the target's own choice\n"
        "           the same in a second run, in company\n"
    ) in rendered(result, 80)
    unseen = dict.fromkeys(("scored", "again", "together", "cached"), nothing)
    assert "answers" not in rendered(samples.a_result((), Verdict.PASS, {"parity": unseen}), 80)


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


@pytest.mark.parametrize(
    ("ratios", "says"),
    [
        ((1.4, 1.1), "speculation paid at every concurrency measured"),
        ((0.9, 0.8), "speculation paid at no concurrency measured"),
        ((0.9, 1.1), "speculation paid"),
    ],
)
def test_where_speculation_pays_without_a_break_even(
    ratios: tuple[float, float], says: str
) -> None:
    result = samples.healthy()
    ups = [
        {"concurrency": c, "ratio": samples.interval(r, 0.05)}
        for c, r in zip((1, 8), ratios, strict=True)
    ]
    result["measurements"]["throughput"] |= {"speed_ups": ups, "break_even": None}
    assert (says in rendered(result, 80)) == (ratios != (0.9, 1.1))


def test_a_first_baseline_is_said_to_be_recorded() -> None:
    result = samples.healthy()
    result["measurements"]["baseline"]["state"] = "written"
    told = rendered(result, 80)
    assert "2.74 recorded by this run   baselines/kimi-k2.5.json" in told
    assert "-1.1 %" not in told


def test_why_there_is_no_replay_is_told() -> None:
    result = samples.healthy()
    result["measurements"]["not_replayed"] = "RoPE of type 'longrope' is not computed"
    assert "replay     RoPE of type 'longrope' is not computed\n" in rendered(result, 80)
